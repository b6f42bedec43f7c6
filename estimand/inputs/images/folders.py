"""Which images lie in a folder, of which class, and in which part of a split."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Sequence

import tensorflow as tf

from estimand.core.errors import InputError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")


@dataclasses.dataclass(frozen=True)
class ImageList:
    """Paths and labels of images, class by class in the order of their names."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]


def find_images(
    where: str, directory: str | os.PathLike[str], class_names: Sequence[str] | None, labelled: bool
) -> ImageList:
    """The images of every class folder; without labels, also those beside the folders."""
    folder = os.fspath(directory)
    if not tf.io.gfile.isdir(folder):
        problem = "is a file" if tf.io.gfile.exists(folder) else "does not exist"
        raise InputError(
            f"{where}: the directory {folder!r} {problem}. Pass a directory with one folder of "
            "images per class."
        )
    entries = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    there = [
        name
        for name in entries
        if not name.startswith(".") and tf.io.gfile.isdir(os.path.join(folder, name))
    ]
    names = _chosen(where, folder, there, class_names)
    images = [(label, path) for label, name in enumerate(names) for path in _images(folder, name)]
    if not labelled:
        images += [(0, os.path.join(folder, name)) for name in entries if _is_image(name)]
    _check_found(where, folder, names, [label for label, _ in images], labelled)
    return ImageList(
        tuple(path for _, path in images), tuple(label for label, _ in images), tuple(names)
    )


def _chosen(
    where: str, folder: str, there: Sequence[str], wanted: Sequence[str] | None
) -> Sequence[str]:
    if wanted is None:
        return there
    missing = [name for name in wanted if name not in there]
    if missing:
        raise InputError(
            f"{where}: class_names has {', '.join(map(repr, missing))}, but {folder!r} has no "
            f"such folder; its folders are: {', '.join(map(repr, there)) or 'none'}."
        )
    return list(wanted)


def _images(folder: str, name: str) -> list[str]:
    """All images below a class folder, at any depth."""
    return sorted(
        os.path.join(parent, file)
        for parent, _, files in tf.io.gfile.walk(os.path.join(folder, name))
        for file in files
        if _is_image(file)
    )


def _is_image(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def _check_found(
    where: str, folder: str, names: Sequence[str], labels: Sequence[int], labelled: bool
) -> None:
    kinds = ", ".join(ENDINGS)
    if labelled and not names:
        raise InputError(
            f"{where}: {folder!r} has no folders, and the folders are the classes. Put the images "
            "of each class into a folder of its own, or pass label_mode=None for images alone."
        )
    empty = [name for label, name in enumerate(names) if label not in labels]
    if labelled and empty:
        raise InputError(
            f"{where}: no images ({kinds}) in the class folder(s) {', '.join(map(repr, empty))} "
            f"of {folder!r}. Remove the folder, or name the classes: class_names=[...]."
        )
    if not labels:
        raise InputError(f"{where}: no images ({kinds}) in {folder!r}.")


def part_of(images: ImageList, fraction: float, validation: bool, seed: int) -> ImageList:
    """The training or the validation part: the same fraction of every class.

    Which part an image falls into depends on its class, its name and the seed: images that are
    added later move few of the others.
    """
    by_class: dict[int, list[str]] = {}
    for path, label in zip(images.paths, images.labels, strict=True):
        by_class.setdefault(label, []).append(path)
    chosen: set[str] = set()
    for label, paths in by_class.items():
        ordered = sorted(paths, key=lambda path: (_score(path, label, seed), path))
        held_back = round(len(ordered) * fraction)
        chosen.update(ordered[:held_back] if validation else ordered[held_back:])
    kept = [pair for pair in zip(images.paths, images.labels, strict=True) if pair[0] in chosen]
    return ImageList(
        tuple(path for path, _ in kept), tuple(label for _, label in kept), images.class_names
    )


def _score(path: str, label: int, seed: int) -> int:
    return zlib.crc32(f"{seed}/{label}/{os.path.basename(path)}".encode())
