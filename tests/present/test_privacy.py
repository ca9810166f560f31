"""What the page says that the Space sends and keeps."""

from __future__ import annotations

from lib.present.privacy import TITLE, privacy_note


def test_it_is_short_and_says_what_is_sent_kept_and_done_with_tokens() -> None:
    """One box of three sentences' worth; with actions switched off no sign-in is spoken of."""
    on, off = privacy_note(account_actions=True), privacy_note(account_actions=False)
    assert all(note.count("<li>") == 3 and TITLE in note and len(note) < 1_500 for note in (on, off))
    assert ("manage-repos" in on, "manage-repos" in off) == (True, False)
    assert "switched off" in off
