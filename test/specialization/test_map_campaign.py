"""The campaign over random maps, short; VYRE_SPEC_MAPS=1000000 makes it as long as docs/reference/cache.md says."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_no_two_maps_share_a_digest() -> None:
    """The draw finds maps that the 64-bit hash confuses, so the digest is really put to the test."""
    maps = os.environ.get("VYRE_SPEC_MAPS", "20000")
    script = (
        "import json, runpy, sys; campaign = runpy.run_path(sys.argv[1])['campaign'];"
        "print(json.dumps(campaign(int(sys.argv[2]))))"
    )
    path = str(Path(__file__).with_name("map_campaign.py"))
    ran = subprocess.run(
        [sys.executable, "-c", script, path, maps], capture_output=True, text=True, check=True, timeout=1200
    )
    counts = json.loads(ran.stdout)
    assert counts["equal digests of different maps"] == 0
    assert counts["equal 64-bit hashes of different maps"] > 0
    assert counts["different maps"] > counts["maps"] / 2
