"""Folders of images, one for each class, as rows of what records of images hold."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from estimand.core.errors import InputError

ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")


def in_folders(folder: str) -> list[tuple[str, int, str]]:
    """Path, number and name of its class, of each image below `folder`."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    images = [
        (os.path.join(folder, name, file), number, name)
        for number, name in enumerate(classes)
        for file in sorted(os.listdir(os.path.join(folder, name)))
        if file.lower().endswith(ENDINGS)
    ]
    if not images:
        raise InputError(
            f"records.write: {folder!r} holds no images. Expected one folder per class in it, "
            f"with files that end in {', '.join(ENDINGS)}; its folders: {classes}."
        )
    return images


def identity(folder: str) -> tuple[int, int]:
    """How many images there are, and a number that changes with any of them."""
    images = in_folders(folder)
    digest = hashlib.sha256()
    for path, *_ in images:
        is_now = os.stat(path)
        digest.update(f"{path}\0{is_now.st_size}\0{is_now.st_mtime_ns}\n".encode())
    return len(images), int.from_bytes(digest.digest()[:6], "big")


def row_of(path: str, label: int, name: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        contents = file.read()
    return {
        "image/encoded": contents,
        "image/filename": os.path.basename(path),
        "image/class/label": label,
        "image/class/text": name,
    }
