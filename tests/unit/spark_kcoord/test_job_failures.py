"""What a job tells of a failure."""

from spark_kcoord.job_failures import failure_cause

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
