"""Pydantic's findings as rules: 'must be > 0', 'must be an integer'."""

from typing import Any

from pydantic import ValidationError

_RULES = {
    "greater_than": "must be > {gt}",
    "greater_than_equal": "must be >= {ge}",
    "less_than": "must be < {lt}",
    "less_than_equal": "must be <= {le}",
    "finite_number": "must be a finite number",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text in quotes",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
}


def rule(finding: Any) -> str:
    """One finding of pydantic's as a rule."""
    template = _RULES.get(finding["type"])
    if template is not None:
        return template.format(**finding.get("ctx", {}))
    return str(finding["msg"]).removeprefix("Value error, ")


def explain(error: ValidationError) -> str:
    """The rules a value broke, alternatives joined by 'or'."""
    rules = dict.fromkeys(rule(finding) for finding in error.errors(include_url=False))
    return " or ".join(text if n == 0 else text.removeprefix("must be ") for n, text in enumerate(rules))
