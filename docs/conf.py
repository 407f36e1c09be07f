"""How Sphinx makes the documentation: ``make docs``."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for code_cells

project = "pvtree"
release = version = installed("pvtree")
project_copyright = "the pvtree authors, Apache License 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "code_cells"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"pvtree {release}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["gallery.css"]
exclude_patterns = ["paper/*.csv"]

autodoc_typehints = "none"  # signatures stay on one line; types are in the text of each parameter
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
# Methods that scikit-learn's base classes bring along, with references into its own documentation.
INHERITED = {"get_metadata_routing", "set_fit_request", "set_predict_request", "set_score_request",
             "set_predict_proba_request", "set_predict_log_proba_request"}  # fmt: skip


def leave_out(app, what, name, member, skip, options):
    return True if name in INHERITED else skip


def setup(app):
    app.connect("autodoc-skip-member", leave_out)
