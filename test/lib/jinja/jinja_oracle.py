"""Renders templates with Jinja 3.1 as `transformers` sets it up: the oracle of the chat tests.

Reads `{"now": "2025-03-09T08:05:07", "cases": [{"source": ..., "variables": ...}]}` from standard input, `variables` as a
JSON text, so that ints of any size arrive as they were written. A case with `final` is a conversation whose final
turn has that content and is continued. Writes a list of `{"text": ...}` or `{"error": ...}`.
"""

import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what a model wrote; its text is printed as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def continued(rendered, final):
    """The rule of `continue_final_message` in `apply_chat_template` of transformers 4.x."""
    if final.strip() not in rendered:
        raise ValueError("the final message is not in the rendered chat")
    begin = rendered.rindex(final.strip())
    if rendered[begin : begin + len(final.lstrip())] == final:
        return rendered[: begin + len(final.lstrip())]
    return rendered[: begin + len(final.strip())]


def main():
    request = json.load(sys.stdin)
    now = datetime.fromisoformat(request["now"])
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = now.strftime
    compiled = {}
    answers = []
    for case in request["cases"]:
        try:
            source = case["source"]
            if source not in compiled:
                compiled[source] = environment.from_string(source)
            rendered = compiled[source].render(**json.loads(case["variables"]))
            answers.append({"text": continued(rendered, case["final"]) if "final" in case else rendered})
        except Exception as error:  # whatever a template does wrong, both sides must refuse it
            answers.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(answers, sys.stdout)


main()
