"""The name that operators see of a member: its Spark application's, as far as the command line above it tells."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_kcoord.source.process.application_names import MOST_CHARACTERS, name_on

JAVA = ["/usr/bin/java", "-cp", "/spark/jars/*", "-Xmx1g", "org.apache.spark.deploy.SparkSubmit"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ([*JAVA, "--conf", "spark.app.name=nightly", "pyspark-shell"], "nightly"),
        ([*JAVA, "--name", "flights", "--master", "local[2]", "/jobs/job.py", "--name", "of the job"], "flights"),
        ([*JAVA, "--conf=spark.app.name=a=b", "job.py"], "a=b"),
        ([*JAVA, "--verbose", "--conf", "spark.x=--name", "s3a://bucket/job.py"], "job.py"),
        ([*JAVA, "--class", "org.x.Main", "/jars/app.jar", "job.py"], "app.jar"),
        ([*JAVA, "pyspark-shell"], None),
        ([*JAVA, "--master"], None),
        (JAVA, None),
        (["java", "org.apache.spark.deploy.yarn.ApplicationMaster", "--primary-py-file", "hdfs:///x/job.py"], "job.py"),
        (["java", "ApplicationMaster", "--primary-py-file"], None),
        (["java", "com.example.Server", "--name", "not Spark's"], None),
        ([], None),
        ([*JAVA, "--name", "two\nlines\x1b[31m", "job.py"], "two lines [31m"),
        ([*JAVA, "--name", " \n ", "pyspark-shell"], None),
        ([*JAVA, "--name", "n" * 500], "n" * MOST_CHARACTERS),
    ],
)
def test_name_is_read_as_spark_submit_reads_it(line: list[str], name: str | None) -> None:
    assert name_on(line) == name


TELL = "from spark_kcoord.source.process.application_names import name_above; print(name_above())"
START_A_JVM = """
import subprocess, sys
java, program, *arguments = sys.argv[1:]
subprocess.run([java, "-c", f"{sys.executable} -c '{program}'; true", *arguments], check=True)
"""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["org.apache.spark.deploy.SparkSubmit", "--name", "my stream", "job.py"], "my stream"),
        (["org.apache.spark.deploy.SparkSubmit", "pyspark-shell"], "started.py"),
        ([], "started.py"),
    ],
)
def test_name_is_that_of_the_jvm_above_or_of_the_script_that_started_it(
    tmp_path: Path, arguments: list[str], name: str
) -> None:
    (tmp_path / "java").symlink_to("/bin/sh")
    script = tmp_path / "started.py"
    script.write_text(START_A_JVM)
    command = [sys.executable, "-W", "error", script, tmp_path / "java", TELL, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[5])
    assert found.stdout.strip() == name


def test_without_a_jvm_there_is_no_name() -> None:
    found = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "None"
