"""Hardware that a platform has announced and whose price it has not published: it is named, and never priced or ranked."""

from __future__ import annotations

from typing import Annotated

from lib.catalog.rows import Day, Row, Text, require_distinct
from lib.platforms import Platform


class UnpricedHardware(Row):
    """Hardware without a published price."""

    platform: Platform
    """The platform that announced it."""
    name: Text
    """Name for people."""
    accelerators: tuple[Text, ...]
    """Ids of the cards that the name may mean."""
    announced: Day
    """The day of the announcement."""
    source: Text
    """The page that announced it."""
    checked: Day
    """The day of the price list that does not have it."""

    @property
    def sentence(self) -> str:
        """The announcement as a sentence, for refusals and caveats."""
        return (
            f"{self.name} was announced for {self.platform} on {self.announced} ({self.source}). "
            f"Its price, sizes and regions are not in the price list of {self.checked}, so it cannot be priced here."
        )


class UnpricedFile(Row):
    """unpriced_hardware.json."""

    rows: Annotated[tuple[UnpricedHardware, ...], require_distinct("platform", "name")]
