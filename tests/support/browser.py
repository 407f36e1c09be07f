"""Opens a report in a real browser, moves what can be moved, and says what happened."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

REPORTS = Path(__file__).resolve().parents[2] / "build" / "reports"  # kept, to be looked at
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here; install it to try reports in a browser")

TRY = """
<script>
const errors = [];
window.addEventListener("error", (event) => errors.push(event.message));
window.addEventListener("load", async () => {
  const page = document.documentElement;
  for (let i = 0; i < 100 && !page.dataset.charts; i++) await new Promise((go) => setTimeout(go, 50));
  const text = (id) => { const found = document.getElementById(id); return found === null ? null : found.textContent; };
  const slider = document.getElementById("threshold"), before = text("threshold-tp");
  if (slider !== null) {
    slider.value = "95";
    slider.dispatchEvent(new Event("input"));
  }
  const labels = [...document.querySelectorAll("#tree-view .split text:not(.soft)")].map((each) => each.textContent);
  const nodes = () => document.querySelectorAll("#tree-view g[data-node]").length;
  const all = nodes();
  document.querySelector('#tree-view g[data-node="0"]').dispatchEvent(new Event("click"));
  const folded = nodes(), view = document.getElementById("tree-view").getAttribute("viewBox");
  document.getElementById("tree-out").click();
  const result = {
    charts: document.querySelectorAll(".chart svg").length, asked: document.querySelectorAll(".chart").length,
    threshold: text("threshold-value"), before, after: text("threshold-tp"), all, folded, labels,
    zoomed: view !== document.getElementById("tree-view").getAttribute("viewBox"),
    requests: performance.getEntriesByType("resource").length, title: document.title, errors,
    sections: [...document.querySelectorAll("section")].map((each) => each.id),
    wide: page.scrollWidth - page.clientWidth,
  };
  const out = document.createElement("pre");
  out.id = "tried";
  out.textContent = JSON.stringify(result);
  document.body.append(out);
});
</script>
"""


def tried(path, width, folder):
    """What the page at ``path`` does in a window of this width; fails if it asks for anything or has an error."""
    changed = folder / f"tried-{width}.html"
    changed.write_text(path.read_text("utf-8").replace("<nav", f"{TRY}<nav", 1), "utf-8")
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'browser'}", f"--window-size={width},900", "--virtual-time-budget=10000",
            "--enable-logging=stderr", "--dump-dom", changed.as_uri(),
        ],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    found = json.loads(unescape(re.search(r'<pre id="tried">(.*?)</pre>', done.stdout, re.DOTALL)[1]))
    assert found["errors"] == [] and found["requests"] == 0 and "CONSOLE" not in done.stderr
    assert found["charts"] == found["asked"] and found["wide"] <= 0 and found["zoomed"]
    return found
