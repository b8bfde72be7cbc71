"""Markdown for a terminal: text that streams in is cut into blocks, and each block becomes lines.

The text is a stranger's. Whatever it holds stands there as letters: control characters go, HTML and links are shown as
they are written, and only this module decides about styles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table, box
from rich.text import Text

from conversation.text import folded, printable

if TYPE_CHECKING:
    from rich.console import JustifyMethod

LEAST_WIDTH = 10  # what is nested too deep goes on in this many columns
PREVIEWED = 3_000  # letters of a block that is not whole yet, rendered again whenever it is looked at

# Code that is coloured. The lexers of some other languages take minutes for a page of one letter, and the program would
# hear nothing meanwhile; with these it is long lines, and very many, that take time.
_NAMES = """
bash c c# c++ clojure console cpp cs csharp css dart diff docker dockerfile elixir go golang graphql haskell hs html ini
java javascript js json jsx kotlin lua nginx perl php powershell proto protobuf ps1 py pycon python python3 r rb rs ruby
rust scala sh shell sql swift toml ts tsx typescript xml yaml yml zsh
"""
LANGUAGES = frozenset(_NAMES.split())
HIGHLIGHTED, LONGEST_LINE, MOST_LINES = 20_000, 400, 1_000  # letters, letters, lines

# Colours of the terminal itself, of which none is bright: they can be read on light and on dark.
_CODE = {
    ("Comment",): Style(dim=True, italic=True),
    ("Keyword",): Style(color="magenta"),
    ("Literal", "String"): Style(color="green"),
    ("Literal", "Number"): Style(color="cyan"),
    ("Name", "Function"): Style(color="cyan"),
    ("Name", "Class"): Style(color="cyan"),
    ("Name", "Decorator"): Style(color="magenta"),
    ("Name", "Builtin"): Style(color="cyan"),
    ("Name", "Tag"): Style(color="magenta"),
    ("Generic", "Deleted"): Style(color="red"),
    ("Generic", "Inserted"): Style(color="green"),
}
_INLINE = {"strong": "bold", "em": "italic", "s": "strike", "code": "cyan"}


def _parser() -> MarkdownIt:
    # A definition of a link would vanish, and the links it is for may stand in blocks that are printed already.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")


class Blocks:
    """Cuts text that streams in. A block is whole when the next one has begun with a whole line. A long one is looked
    at only once it has grown by a part of its length, so that all looks together take no longer than a few."""

    def __init__(self) -> None:
        self.open = ""
        self._parser = _parser()
        self._looked_from = 0  # letters

    def feed(self, delta: str) -> str:
        """The blocks that are whole now, as they were written; empty where there is none."""
        self.open += printable(delta)  # some of what goes counts as the end of a line
        if "\n" not in delta or len(self.open) < self._looked_from:
            return ""
        lines = self.open[: self.open.rindex("\n") + 1]
        self._looked_from = len(lines) + len(lines) // 16
        begins = [token.map[0] for token in self._parser.parse(lines) if token.level == 0 and token.map]
        if len(begins) < 2 or begins[-1] == begins[0]:
            return ""
        at = sum(len(line) + 1 for line in lines.split("\n")[: begins[-1]])
        whole, self.open = self.open[:at], self.open[at:]
        self._looked_from = 0
        return whole

    def end(self) -> str:
        """What is left."""
        rest, self.open, self._looked_from = self.open, "", 0
        return rest


class MarkdownStream:
    """Text that streams in, as lines of whole blocks. ``columns`` is asked anew for each block."""

    def __init__(self, columns: Callable[[], int], *, unicode: bool = True) -> None:
        self._columns = columns
        self._unicode = unicode
        self._blocks = Blocks()
        self._preview: tuple[tuple[str, int], list[str]] = (("", 0), [])

    def feed(self, delta: str) -> list[str]:
        return self._lines(self._blocks.feed(delta))

    def end(self) -> list[str]:
        return self._lines(self._blocks.end())

    def preview(self, rows: int) -> list[str]:
        """The block that is not whole, as it looks so far; of a long one the end, as it was written."""
        text, columns = self._blocks.open, self._columns()
        if (text, columns) != self._preview[0]:
            short = len(text) <= PREVIEWED
            lines = self._lines(text) if short else folded(printable(text[-PREVIEWED:]), columns)
            self._preview = (text, columns), lines
        return self._preview[1][-rows:] if rows else []

    def _lines(self, text: str) -> list[str]:
        return Markdown(self._columns(), unicode=self._unicode).lines(text) if text.strip() else []


class Markdown:
    """Turns Markdown into lines with the codes of a terminal that is ``width`` columns wide. Lines of code are as long
    as they are, so that they can be copied; everything else fits."""

    def __init__(self, width: int, *, unicode: bool = True) -> None:
        self._width = max(width, LEAST_WIDTH)
        self._bullet, self._bar, self._rule = ("•", "│", "─") if unicode else ("-", "|", "-")
        self._box = box.SIMPLE_HEAD if unicode else box.ASCII2
        self._parser = _parser()

    def lines(self, text: str) -> list[str]:
        """``text`` as lines; between blocks stands an empty one."""
        tree = SyntaxTreeNode(self._parser.parse(text))
        return [self._coded(line) for line in self._blocks(tree.children, self._width)]

    @cached_property
    def _console(self) -> Console:
        return Console(width=self._width, color_system="standard", force_terminal=True, legacy_windows=False)

    def _coded(self, line: Text) -> str:
        line.rstrip()
        pieces = line.render(self._console, end="")
        return "".join(
            piece.style.render(piece.text, color_system=ColorSystem.STANDARD) if piece.style else piece.text
            for piece in pieces
        )

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, *, tight: bool = False) -> list[Text]:
        out: list[Text] = []
        for node in nodes:
            lines = self._block(node, max(width, LEAST_WIDTH))
            if out and lines and not tight:
                out.append(Text())
            out += lines
        return out

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "paragraph":
                return self._wrapped(_inline(node.children[0]), width)
            case "heading":
                text = _inline(node.children[0])
                text.stylize("bold cyan" if node.tag in ("h1", "h2") else "bold")
                return self._wrapped(text, width)
            case "fence" | "code_block":
                return _code(printable(node.content), node.info.strip().split(" ")[0].lower())
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "blockquote":
                bar = f"{self._bar} ", "dim"
                return [Text.assemble(bar, line) for line in self._blocks(node.children, width - 2)]
            case "table":
                return self._table(node, width)
            case "hr":
                return [Text(self._rule * min(width, 40), "dim")]
            case _:
                return self._wrapped(Text(printable(node.content)), width)

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        return list(text.wrap(self._console, width, overflow="fold"))

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        first = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        out: list[Text] = []
        for number, item in enumerate(node.children, start=first or 0):
            mark = f"{self._bullet} " if first is None else f"{number}. "
            if out and not tight:
                out.append(Text())
            lines = self._blocks(item.children, width - len(mark), tight=tight) or [Text()]
            out.append(Text.assemble((mark, "dim"), lines[0]))
            out += [Text(" " * len(mark)) + line for line in lines[1:]]
        return out

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        head, *bodies = node.children
        table = Table(box=self._box, border_style="dim", pad_edge=False, show_edge=False, header_style="bold")
        for cell in head.children[0].children:
            style = str(cell.attrs.get("style", ""))
            justify: JustifyMethod = "right" if "right" in style else "center" if "center" in style else "left"
            table.add_column(_inline(cell.children[0]), justify=justify, overflow="fold")
        for row in (row for body in bodies for row in body.children):
            table.add_row(*[_inline(cell.children[0]) for cell in row.children])
        console = self._console
        lines = console.render_lines(table, console.options.update(width=width), pad=False)
        return [Text.assemble(*[(piece.text, piece.style or "") for piece in line]) for line in lines]


def _code(code: str, language: str) -> list[Text]:
    code = code.removesuffix("\n").expandtabs(4)
    lines = code.split("\n")
    large = len(code) > HIGHLIGHTED or len(lines) > MOST_LINES or max(map(len, lines)) > LONGEST_LINE
    if large or language not in LANGUAGES:
        return [Text(line) for line in lines]
    text = Syntax(code, language, theme=ANSISyntaxTheme(_CODE)).highlight(code)
    text.remove_suffix("\n")
    return list(text.split("\n", allow_blank=True))


# -- pieces of a line --------------------------------------------------------------------------------------------------


def _inline(node: SyntaxTreeNode) -> Text:
    text = Text()
    for piece, style in _pieces(node.children, ""):
        text.append(printable(piece), style)
    return text


def _pieces(nodes: Iterable[SyntaxTreeNode], style: str) -> Iterator[tuple[str, str]]:
    for node in nodes:
        inner = f"{style} {_INLINE.get(node.tag, '')}".strip()
        match node.type:
            case "softbreak" | "hardbreak":
                yield "\n", style
            case "link":
                yield from _link(node, style)
            case "image":
                yield f"[{node.content}] ({node.attrs.get('src', '')})", style
            case _ if node.children:
                yield from _pieces(node.children, inner)
            case _:
                yield node.content, inner


def _link(node: SyntaxTreeNode, style: str) -> Iterator[tuple[str, str]]:
    """The address stands there too: what a link is called is no sign of where it leads."""
    inside = list(_pieces(node.children, f"{style} underline".strip()))
    address = str(node.attrs.get("href", ""))
    yield from inside
    if "".join(text for text, _ in inside) not in (address, address.removeprefix("mailto:")):
        yield f" ({address})", f"{style} dim".strip()
