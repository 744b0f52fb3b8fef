"""The options that say how a file is read, which several verbs share."""

from typing import Annotated, Any

from typer import Option

Encoding = Annotated[str | None, Option(help="How the files are encoded (utf-8).")]
EncodingErrors = Annotated[str | None, Option(help="Bad bytes: strict, replace or skip.")]
Columns = Annotated[str | None, Option(help="The columns of a file without a header: label,-,text.")]
Delimiter = Annotated[str | None, Option(help="What separates the columns of a .csv.")]
TextColumn = Annotated[str | None, Option(help="The column that holds the text.")]
LabelColumn = Annotated[str | None, Option(help="The column that holds the label.")]
TagsColumn = Annotated[str | None, Option(help="The column that holds the tags.")]
SourceColumn = Annotated[str | None, Option(help="The column that holds what is translated.")]
TargetColumn = Annotated[str | None, Option(help="The column that holds the translation.")]


def reading(columns: str | None, delimiter: str | None, **others: str | None) -> dict[str, Any]:
    """Return the data settings that some options spell: those that were given."""
    given = {
        "columns": columns.split(",") if columns else None,
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        **others,
    }
    return {name: value for name, value in given.items() if value is not None}
