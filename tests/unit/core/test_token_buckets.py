from coordinator.core.token_buckets import Rate, TokenBuckets


def test_a_full_bucket_gives_its_burst_and_then_one_token_at_a_time() -> None:
    buckets = TokenBuckets(Rate(burst=3, per_s=10))
    for _ in range(3):
        assert buckets.wait_ms("a", 1_000) == 0
        buckets.take("a", 1_000)
    assert buckets.wait_ms("a", 1_000) == 100
    assert buckets.wait_ms("a", 1_050) == 50
    assert buckets.wait_ms("a", 1_100) == 0
    assert buckets.wait_ms("b", 1_000) == 0


def test_an_overdrawn_bucket_owes_at_most_its_burst() -> None:
    buckets = TokenBuckets(Rate(burst=3, per_s=1))
    for _ in range(100):
        buckets.take("a", 0)
    assert buckets.wait_ms("a", 0) == 4_000
    assert buckets.wait_ms("a", 4_000) == 0


def test_a_bucket_that_is_full_again_is_forgotten() -> None:
    buckets = TokenBuckets(Rate(burst=2, per_s=1))
    buckets.take("a", 0)
    assert len(buckets) == 1
    assert buckets.wait_ms("a", 5_000) == 0
    assert len(buckets) == 0


def test_of_too_many_keys_those_used_longest_ago_are_forgotten() -> None:
    buckets = TokenBuckets(Rate(burst=1, per_s=1), most_keys=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, 0)
    assert [buckets.wait_ms(key, 0) > 0 for key in ("a", "b", "c")] == [True, False, True]


def test_time_that_goes_back_gives_nothing() -> None:
    buckets = TokenBuckets(Rate(burst=1, per_s=1))
    buckets.take("a", 10_000)
    assert buckets.wait_ms("a", 0) == 1_000
