"""Counters of the server in the text format of Prometheus."""

from bisect import bisect_left

# Upper bounds of the buckets of the time to the first token, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    """Counters and gauges, which requests update."""

    def __init__(self) -> None:
        self.prompt_tokens = self.generation_tokens = 0
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def note_first_token(self, seconds: float) -> None:
        """Count the time between the arrival of a request and its first token."""
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def text(self, running: int, waiting: int) -> str:
        """Return all values; `running` and `waiting` are numbers of requests."""
        lines: list[str] = []

        def add(name: str, kind: str, text: str, values: dict[str, float]) -> None:
            lines.extend((f"# HELP satchel:{name} {text}", f"# TYPE satchel:{name} {kind}"))
            lines.extend(f"satchel:{name}{suffix} {value:g}" for suffix, value in values.items())

        add("prompt_tokens_total", "counter", "Tokens of prompts.", {"": self.prompt_tokens})
        add("generation_tokens_total", "counter", "Generated tokens.", {"": self.generation_tokens})
        add("num_requests_running", "gauge", "Requests that worker processes answer.", {"": running})
        add("num_requests_waiting", "gauge", "Requests that wait for a worker process.", {"": waiting})
        total = 0
        histogram: dict[str, float] = {}
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            histogram[f'_bucket{{le="{bound}"}}'] = total
        histogram |= {"_sum": self._seconds, "_count": total}
        add("time_to_first_token_seconds", "histogram", "Time to the first token of a request.", histogram)
        return "\n".join(lines) + "\n"
