"""``format("kcoord")`` as Spark sees it: the name, the columns, and which reader does the work.

Every process of a query makes this object, so nothing is opened here; wrong options are refused while
``load()`` runs as far as they do not depend on the kind of read, and the rest when Spark asks for the reader.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from spark_kcoord.errors import KcoordError, OptionError
from spark_kcoord.options.source_options import columns_of, must_be_complete, must_not_share_filters, parse_options
from spark_kcoord.options.table import HEADERS
from spark_kcoord.source.process.spark_versions import batch_lack, stream_lack

__all__ = ["KcoordDataSource"]

_HEADER = StructType().add("key", StringType()).add("value", BinaryType())
_SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
    .add(HEADERS, ArrayType(_HEADER))
)


class KcoordDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped
    """Kafka topics as a table or a stream, read as a member of a consumer group.

    The columns are spark-sql-kafka's; ``headers`` is null for a record without any. ``timestampType`` is 0
    for the producer's time, 1 for the time of the append and -1 where there is none, as in message format 0.

    | option | for | default | meaning |
    |---|---|---|---|
    | subscribe | both | one of these three | topics, separated by commas |
    | subscribePattern | both | | regular expression of whole topic names |
    | assign | both | | partitions, as JSON |
    | kcoord.exclude | both | | topics to leave out |
    | kcoord.bootstrap.servers | both | required in a stream | coordinator nodes, host:port |
    | kcoord.group.id | both | required in a stream | the consumer group to join |
    | kafka.bootstrap.servers | both | told by the coordinator | Kafka brokers, host:port |
    | kafka.group.id | both | | taken for kcoord.group.id where that is not given |
    | startingTimestamp | both | | where to start: ms since 1970 |
    | startingOffsetsByTimestamp | both | | the same by topic and partition, as JSON |
    | startingOffsetsByTimestampStrategy | both | error | or latest, where no record is as late |
    | startingOffsets | both | latest; batch: earliest | earliest, latest, committed or JSON |
    | endingTimestamp | batch | | where to end: ms since 1970 |
    | endingOffsetsByTimestamp | batch | | the same by topic and partition, as JSON |
    | endingOffsets | batch | latest | latest or JSON |
    | maxOffsetsPerTrigger | stream | none | most offsets of one micro-batch |
    | minOffsetsPerTrigger | stream | none | fewest offsets of one micro-batch |
    | maxTriggerDelay | stream | 15m | longest wait for them |
    | maxBytesPerTrigger | stream | none | about the most bytes of one micro-batch |
    | minPartitions | both | none | least number of tasks |
    | maxRecordsPerPartition | both | none | most offsets of one task |
    | includeHeaders | both | false | add the column headers |
    | kcoord.columns | both | all but headers | only these columns |
    | kcoord.push.filters | batch | false | one-scan reads less by the filters of a load()'s one scan |
    | failOnDataLoss | both | true | fail when records are gone, or warn and read on |
    | kafkaConsumer.pollTimeoutMs | both | 120000 | longest time without progress of an executor |
    | fetchOffset.numRetries | both | none | how often offsets are asked for again |
    | fetchOffset.retryIntervalMs | both | 10 | wait before that |
    | kcoord.commit | stream | true | commit to the group what is done |
    | kcoord.share.within.application | stream | false | share the group with queries of the same application |
    | kcoord.wait.for.topics | stream | false | wait for topics that do not exist yet |
    | kcoord.client.id | stream | the application's name | what describe and members show |
    | kcoord.instance.id | stream | none | static member id |
    | kcoord.session.timeout | stream | 10s | silence after which a member is dead |
    | kcoord.ping.interval | stream | a third of the session time-out | how often to say that it lives |
    | kcoord.rebalance.timeout | stream | 5m | how long a running micro-batch keeps its partitions |
    | kcoord.streams | stream | 1 | tasks at once: capacity relative to the group's other members |
    | kcoord.assignors | stream | sticky,range | assignors accepted, best first |
    | kcoord.coordinator.timeout | stream | 2m | how long a query waits for a coordinator that is away |
    | kcoord.handover | stream | takeover | hold keeps a dead query's micro-batch for its instance id |
    | kcoord.claim.timeout | stream | | how long hold waits; none waits for ever |
    | kcoord.security.protocol | both | PLAINTEXT | SSL speaks TLS with coordinators, SASL_SSL logs in too |
    | kcoord.ssl.ca.location | both | | certificates that a coordinator's is signed by, as PEM |
    | kcoord.ssl.certificate.location | both | | the certificate that is shown to a coordinator |
    | kcoord.ssl.key.location | both | | its key |
    | kcoord.ssl.key.password | both | | the password of that key |
    | kcoord.ssl.key.password.file | both | | a file that holds it |
    | kcoord.ssl.endpoint.identification.algorithm | both | https | none compares no host names |
    | kcoord.sasl.mechanism | both | | how it logs in, if not as its password or token has it |
    | kcoord.sasl.username | both | | the user that logs in |
    | kcoord.sasl.password | both | | its password |
    | kcoord.sasl.password.file | both | | a file that holds it |
    | kcoord.auth.token | both | | the token that it logs in with |
    | kcoord.auth.token.file | both | | a file that holds it |
    | kafka.* | both | | Kafka's consumer settings; ``spark_kcoord.options.table.describe_options()`` lists all |

    Example::

        flights = (
            spark.read.format("kcoord")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("subscribe", "flights")
            .load()
        )
        flights.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").show()

    Which process runs what: ``__init__`` and ``schema`` run in a process made for ``load()``; ``reader`` and
    its ``partitions`` in one made for planning; the stream reader lives in one long-lived process beside the
    Spark driver; ``read`` runs in the Python workers of the executors. No register call is needed.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kcoord"

    def schema(self) -> StructType:
        """Return the columns; on the way refuses unknown options and reads that lack what every kind of read needs.

        Spark asks for it first, when `load()` is called and before it is known whether a stream or a batch is read.
        Filters that scans would share are refused here too, since what comes of them is no error.
        Raises KcoordError on a Spark that is too old for either.
        """
        lack = batch_lack()
        if lack is not None:
            raise KcoordError(lack)
        must_be_complete(self.options)
        must_not_share_filters(self.options)
        return StructType([_SCHEMA[name] for name in columns_of(self.options)])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader; raises OptionError for wrong options or a schema of the user's own."""
        from spark_kcoord.source.batch_reader import FilteringBatchReader, KcoordBatchReader

        self._refuse_other_schema(schema)
        options = parse_options(self.options, "batch")
        return FilteringBatchReader(options) if options.takes_filters else KcoordBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the stream reader, or one that raises why there is none.

        That is OptionError for wrong options or a schema of the user's own, KcoordError on a Spark that is too old.
        """
        from spark_kcoord.source.refused_reader import RefusedStreamReader

        lack = stream_lack()
        if lack is not None:
            return RefusedStreamReader(KcoordError(lack))
        from spark_kcoord.source.stream_reader import KcoordStreamReader

        try:
            self._refuse_other_schema(schema)
            return KcoordStreamReader(parse_options(self.options, "stream"))
        except OptionError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002, FBT001 (Spark's)
        """Refuse to write; raises KcoordError, also as `streamWriter`."""
        raise KcoordError(
            "format('kcoord') reads Kafka and does not write to it: write with format('kafka'), which comes with the "
            "package spark-sql-kafka and takes 'kafka.bootstrap.servers' and 'topic'. A group has no part in writing."
        )

    streamWriter = writer  # noqa: N815  # Spark's name

    def _refuse_other_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionError(
                f"A schema was given ({schema.simpleString()}), but the columns of kcoord are fixed: "
                f"{self.schema().simpleString()}. Remove .schema(...) and convert key and value with Spark functions."
            )
