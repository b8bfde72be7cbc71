"""The pictures of an input, made ready for a model: files fetched from the host's store, each looked at, the large made
smaller."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import replace

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ImageBlock
from agent_nodes.submission import AgentImageInput, FileReference, FileStore, Submission


async def with_pictures(given: Submission, store: FileStore | None) -> Submission:
    """``given`` with the files of ``image_files`` among its ``images``, and with ``pictures``.

    Raises :class:`InputValidationError` naming the picture that cannot be had or is none.
    """
    files = await fetched(given.image_files, store)
    names = [f"images.{n}" for n in range(len(given.images))]
    names += [_named(n, reference) for n, reference in enumerate(given.image_files)]
    images = (*given.images, *files)
    pictures = await asyncio.to_thread(lambda: tuple(map(_picture, images, names)))
    return replace(given, images=images, image_files=(), pictures=pictures)


async def fetched(references: Sequence[FileReference], store: FileStore | None) -> tuple[AgentImageInput, ...]:
    """The files as pictures, not looked at yet. Raises :class:`InputValidationError` naming one that cannot be read."""
    return tuple([await _fetched(reference, _named(n, reference), store) for n, reference in enumerate(references)])


def _named(n: int, reference: FileReference) -> str:
    return f"image_files.{n} ({reference.shown})"


async def _fetched(reference: FileReference, name: str, store: FileStore | None) -> AgentImageInput:
    where = f"input.{name}"
    if store is None:
        raise InputValidationError(f"{where}: there is no file_store to read it from", field="image_files")
    try:
        data = await store.read(reference)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputValidationError(f"{where}: cannot be read: {reason}", field="image_files") from error
    if not isinstance(data, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError(f"{where}: the file store gave no bytes", field="image_files")
    return AgentImageInput(b64encode(data).decode("ascii"), "")


def _picture(image: AgentImageInput, name: str) -> ImageBlock:
    from agent_nodes.tools.pictures import PictureError, picture

    try:
        return picture(b64decode(image.data), name)
    except PictureError as error:
        raise InputValidationError(f"input.{error}", field=name.partition(".")[0]) from error
