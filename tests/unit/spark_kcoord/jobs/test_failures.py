"""What a job tells of a failure."""

from spark_kcoord.jobs.failures import failure_cause

WRAPPED = """[STREAM_FAILED] Query terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed:
Traceback (most recent call last):
  File "client.py", line 142, in join
spark_kcoord.errors.KcoordError: Group 'g' could not be joined. Check the address.
 SQLSTATE: 38000
=== Streaming Query ==="""


def test_of_a_wrapped_error_the_sentence_is_told() -> None:
    assert failure_cause(RuntimeError(WRAPPED)) == "Group 'g' could not be joined. Check the address."


def test_of_two_the_last_one_is_the_cause() -> None:
    text = f"{WRAPPED}\nspark_kcoord.errors.DataLossError: Records are gone."
    assert failure_cause(RuntimeError(text)) == "Records are gone."


def test_of_another_error_everything_is_told() -> None:
    assert failure_cause(RuntimeError("[PATH_ALREADY_EXISTS] /out")) == "[PATH_ALREADY_EXISTS] /out"


def test_of_a_trace_of_javas_own_the_last_cause_is_told() -> None:
    first = "An error occurred while calling o57.parquet.\n: org.apache.spark.SparkException: Job aborted.\n\tat a.b(C)"
    assert failure_cause(RuntimeError(first)) == "org.apache.spark.SparkException: Job aborted."
    why = "java.io.IOException: No space left on device"
    assert failure_cause(RuntimeError(f"{first}\n\tat d.e(F)\nCaused by: {why}\n\tat g.h(I)\n")) == why


def test_of_a_python_error_inside_a_trace_of_javas_its_own_line_is_told() -> None:
    text = (
        "An error occurred while calling o57.parquet.\n: org.apache.spark.SparkException: Job aborted.\n\tat a.b(C)\n"
        "Caused by: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the "
        'Python worker: Traceback (most recent call last):\n  File "w.py", line 3, in main\n    import spark_kcoord\n'
        "ModuleNotFoundError: No module named 'spark_kcoord'\n\n\tat d.e(F)\n"
    )
    assert failure_cause(RuntimeError(text)) == "ModuleNotFoundError: No module named 'spark_kcoord'"
