"""The result of a check: what is wrong, what was measured, in the form that a monitor reads."""

from typing import Any, Final, Literal, NamedTuple

from jetspark.cli.output import Column, Output, to_json

Format = Literal["nagios", "json", "prometheus", "text"]
Status = Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"]
CODES: Final[dict[Status, int]] = {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}


class Measure(NamedTuple):
    """A measured value with its thresholds; 0 is none."""

    name: str
    value: float
    warning: float = 0.0
    critical: float = 0.0
    unit: str = ""
    help: str = ""

    def nagios(self) -> str:
        """As performance data of Nagios."""
        digits = 4 if self.unit == "s" else 0
        text = f"{self.name}={self.value:.{digits}f}{self.unit}"
        if self.warning or self.critical:
            text += f";{self.warning:.{digits}f}" if self.warning else ";"
        if self.critical:
            text += f";{self.critical:.{digits}f}"
        return text


def shown(value: float) -> str:
    """A value for people: whole numbers exactly, others to the microsecond."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.6f}"


def _exact(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


class Result:
    """What a check found so far."""

    def __init__(self, suite: str, name: str) -> None:
        self.suite: Final = suite
        self.name: Final = name
        self.criticals: Final[list[str]] = []
        self.warnings: Final[list[str]] = []
        self.oks: Final[list[str]] = []
        self.measures: Final[list[Measure]] = []
        self.unknown: str = ""

    def critical(self, text: str) -> None:
        """Report something broken."""
        self.criticals.append(text)

    def failed(self, error: Exception) -> None:
        """Report that the check itself failed: a traceback would be a warning to a monitor."""
        self.unknown = f"the check failed: {type(error).__name__}: {error}"

    def warn(self, text: str) -> None:
        """Report something that needs attention."""
        self.warnings.append(text)

    def ok(self, text: str) -> None:
        """Report something that is as it should be."""
        self.oks.append(text)

    def measure(
        self, name: str, value: float, about: str, *, warning: float | None = None,
        critical: float | None = None, unit: str = "",
    ) -> None:  # fmt: skip
        """Report a value."""
        self.measures.append(
            Measure(name, value, max(warning or 0, 0), max(critical or 0, 0), unit, about)
        )

    def compare(
        self, text: str, value: float, *, warning: float | None, critical: float | None,
        inverts: bool = False,
    ) -> None:  # fmt: skip
        """Judge a value: more is worse.

        If it ``inverts``, a critical threshold below the warning one means that less is worse.
        Times do not: one may lower the critical threshold alone.
        """
        if warning is None and critical is None:
            return
        less = inverts and warning is not None and critical is not None and critical < warning

        def reached(limit: float | None) -> bool:
            return limit is not None and (value <= limit if less else value >= limit)

        report = self.critical if reached(critical) else self.warn if reached(warning) else self.ok
        report(text)

    @property
    def status(self) -> Status:
        """The worst of what was reported."""
        if self.criticals:
            return "CRITICAL"
        if self.unknown:
            return "UNKNOWN"
        return "WARNING" if self.warnings else "OK"

    def render(self, form: Format, namespace: str, output: Output) -> bytes | None:
        """The result in a form; None if it was written to ``output``, as a table."""
        if form == "json":
            return to_json(self._fields())
        if form == "prometheus":
            return self._prometheus(namespace).encode()
        if form == "nagios":
            return self._nagios().encode()
        self._show(output)
        return None

    def code(self, form: Format) -> int:
        """The exit code; in the format of Prometheus the status is in the text."""
        return 0 if form == "prometheus" else CODES[self.status]

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "status": self.status,
            "check_suite": self.suite,
            "check_name": self.name,
            "warning": self.warnings,
            "critical": self.criticals,
            "ok": self.oks,
            "perf_data": [
                {
                    "name": one.name,
                    "value": one.value,
                    "warning": one.warning,
                    "critical": one.critical,
                    "unit": one.unit,
                }
                for one in self.measures
            ],
        }
        if self.unknown:
            fields["output"] = self.unknown
        return fields

    def _nagios(self) -> str:
        parts = [f"{self.status} {self.name}"]
        parts.extend(f"Crit:{text}" for text in self.criticals)
        parts.extend(f"Warn:{text}" for text in self.warnings)
        if self.unknown:
            parts.append(self.unknown)
        parts.extend(f"OK:{text}" for text in self.oks)
        # A monitor reads one line, and the measures after its first bar.
        text = " ".join(" ".join(parts).replace("|", "/").split())
        measures = " ".join(one.nagios() for one in self.measures)
        return f"{text} | {measures}" if measures else text

    def _prometheus(self, namespace: str) -> str:
        item = self.name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines = []
        for one in self.measures:
            name = f"{namespace}_{self.suite}_{one.name}"
            lines += [f"# HELP {name} {one.help}", f"# TYPE {name} gauge"]
            lines.append(f'{name}{{item="{item}"}} {_exact(one.value)}')
        name = f"{namespace}_{self.suite}_status_code"
        lines.append(f"# HELP {name} Nagios compatible status code for {self.suite}")
        lines.append(f"# TYPE {name} gauge")
        lines.append(f'{name}{{item="{item}",status="{self.status}"}} {CODES[self.status]}')
        return "\n".join(lines)

    def _show(self, output: Output) -> None:
        styles = {"OK": "green", "WARNING": "yellow"}
        output.line(f"{self.name}: {output.style(self.status, styles.get(self.status, 'red'))}")
        rows = [("OK", text) for text in self.oks]
        rows += [("Warning", text) for text in self.warnings]
        rows += [("Critical", text) for text in self.criticals]
        if self.unknown:
            rows.append(("Unknown", self.unknown))
        if rows:
            output.line()
            output.table("Status Detail", ("Status", "Message"), rows)
        if self.measures:
            output.line()
            columns = (
                "Metric", Column("Value", number=True), "Unit",
                Column("Critical", number=True), Column("Warning", number=True), "Description",
            )  # fmt: skip
            output.table(
                "Check Metrics",
                columns,
                [
                    (
                        one.name, shown(one.value), one.unit, shown(one.critical),
                        shown(one.warning), one.help,
                    )
                    for one in self.measures
                ],
            )  # fmt: skip
