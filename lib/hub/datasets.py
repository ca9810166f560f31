"""A dataset of the Hub as the place of a file of answers: whether it is free, and the file put into it.

The token is that of the user who runs the command. A dataset that does not exist is created, private.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lib.errors import Conflict, HubError, NotPermitted, RateLimited, RepoNotFound
from lib.hub.refusals import client_refusal

if TYPE_CHECKING:
    from huggingface_hub import HfApi

FILE = "data/train-00000-of-00001.parquet"
"""The name by which `datasets.load_dataset` finds the rows of the split train."""
_OWN_FILES = frozenset({FILE, ".gitattributes", "README.md"})
_NEXT = "Run `hf auth login` with a token that may write to it, or name another dataset."
_BY_STATUS: dict[int, tuple[type[HubError], str]] = {
    401: (NotPermitted, "The Hub did not accept the token for {doing}. " + _NEXT),
    403: (NotPermitted, "The token may not do this ({doing}). " + _NEXT),
    404: (RepoNotFound, "The Hub knows no such dataset or account ({doing}). Check the name: datasets/owner/name."),
    409: (Conflict, "Another run wrote to the dataset at the same time ({doing}). Look at it, then run the same command again."),
    412: (Conflict, "Another run wrote to the dataset at the same time ({doing}). Look at it, then run the same command again."),
    429: (RateLimited, "The Hub asks for fewer requests ({doing}). Try again in some minutes."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetState:
    """A dataset before anything is written."""

    revision: str | None
    """Its newest commit; None if the dataset does not exist."""
    private: bool
    """Only its owners may read it; a new one is private."""
    answers: bool
    """It has a file of answers."""
    others: tuple[str, ...]
    """Further files, among which the answers would be read as rows of other columns."""


class DatasetFile:
    """The file of answers in one dataset."""

    def __init__(self, name: str, token: str, *, endpoint: str | None = None) -> None:
        """`name` is owner/name. Nothing is asked yet."""
        from huggingface_hub import HfApi  # noqa: PLC0415  slow to import

        self._api: HfApi = HfApi(endpoint=endpoint, token=token)
        self.name = name

    @property
    def url(self) -> str:
        """Its page."""
        return f"{self._api.endpoint}/datasets/{self.name}"

    def look(self) -> DatasetState:
        """The state of the dataset.

        Raises:
            HubError: the Hub does not say.
        """
        from huggingface_hub.errors import RepositoryNotFoundError  # noqa: PLC0415

        try:
            info = self._api.dataset_info(self.name)
            files = {file.rfilename for file in info.siblings or ()}
            return DatasetState(
                revision=info.sha, private=bool(info.private), answers=FILE in files, others=tuple(sorted(files - _OWN_FILES))
            )
        except RepositoryNotFoundError:
            return DatasetState(revision=None, private=True, answers=False, others=())
        except Exception as error:
            raise client_refusal(error, f"reading the dataset {self.name}", _BY_STATUS) from error

    def put(self, file: Path, state: DatasetState) -> None:
        """Write the file in one commit on top of the state that was seen, so a run at the same time overwrites nothing.

        Raises:
            HubError: it was not written.
        """
        from huggingface_hub import CommitOperationAdd  # noqa: PLC0415

        try:
            if state.revision is None:
                self._api.create_repo(self.name, repo_type="dataset", private=True)
            self._api.create_commit(
                self.name,
                [CommitOperationAdd(FILE, str(file))],
                repo_type="dataset",
                commit_message="Answers of Spaces Hardware Advisor",
                parent_commit=state.revision,
            )
        except Exception as error:
            raise client_refusal(error, f"writing to the dataset {self.name}", _BY_STATUS) from error
