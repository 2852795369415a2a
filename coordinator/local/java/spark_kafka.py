"""The jars of spark-sql-kafka, Spark's own Kafka source: the peer that ours is compared with and measured against.

4.2.0 is the newest release on Maven Central that runs on PySpark 4.3. Spark has the rest of what it needs, so nothing
is fetched but these four jars; hand them to Spark as `spark.jars`.
"""

from coordinator.local.java.jars import JarSet, Module

SPARK_KAFKA_JARS = JarSet(
    name="spark-sql-kafka",
    modules=(
        Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        Module("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        Module("org.apache.kafka", "kafka-clients", "3.9.2"),
        Module("org.apache.commons", "commons-pool2", "2.13.1"),
    ),
    jar_count=4,
    has_dependencies=False,
)
