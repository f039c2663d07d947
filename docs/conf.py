"""The configuration of Sphinx, which ``make docs`` runs; it first writes the pages of docs/reference/api."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))

import plugrad  # noqa: E402
from consistency import reference  # noqa: E402

project = "plugrad"
author = "The plugrad authors"
copyright = author
version = release = plugrad.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
# `x` in a docstring is a parameter or an object; what is neither stays code.
default_role = "py:obj"

# Notebooks are committed without results. Each build runs them, where their pictures do not stay.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

# What is copied are the lines after these prompts, or all lines where there are none.
copybutton_prompt_text = r">>> |\.\.\. |\.\.\.$|\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
add_module_names = False
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = "plugrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# A page that is opened from a file may not read other files, which summaries would need.
html_show_search_summary = False
# Without it, the theme warns on the console of each new visitor.
html_context = {"default_mode": "auto"}
# The matrix takes the whole width.
html_sidebars = {"reference/api/matrix": []}
html_theme_options = {
    "logo": {"text": "plugrad"},
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


class CodeLinks(SphinxTransform):
    """A transform that links code such as ``plugrad.relu(x)`` to the entry of the function."""

    default_priority = 400

    def apply(self) -> None:
        """Wrap the literals of a page that name something public."""
        for literal in list(self.document.findall(nodes.literal)):
            name = literal.astext().partition("(")[0]
            inside = isinstance(literal.parent, nodes.reference | pending_xref)
            if inside or not name.startswith("plugrad.") or not reference.is_documented(name):
                continue
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refwarn=False
            )
            link["refdoc"] = self.env.current_document.docname
            literal.replace_self(link)
            link += literal


class ExtendedTypeLinks(SphinxTransform):
    """Link types in signatures that `plugrad.extend` documents, though another distribution has the name too."""

    default_priority = 400

    def apply(self) -> None:
        """Complete the names of types such as ``Graph``."""
        for link in self.document.findall(pending_xref):
            module, name = link.get("py:module"), link["reftarget"]
            if not module or "." in name:
                continue
            complete = f"plugrad.extend.{name}"
            own = {f"{module}.{name}", f"{module.partition('.')[0]}.{name}"}
            if complete in reference.page_by_path() and own.isdisjoint(reference.page_by_path()):
                link["reftarget"] = complete


class ExampleTrimming(SphinxTransform):
    """Remove the empty line at the end of an example, which doctest needs and readers do not."""

    default_priority = 210

    def apply(self) -> None:
        """Shorten the blocks of code."""
        for block in self.document.findall(nodes.literal_block):
            text = block.astext().rstrip()
            block.rawsource = text
            block.children = []
            block += nodes.Text(text)


class RepositoryLinkRemoval(SphinxTransform):
    """Show links to folders and pages of the repository that are not on the site as text."""

    default_priority = 5

    def apply(self) -> None:
        """Replace the links."""
        here = Path(self.document["source"]).parent
        for link in list(self.document.findall(pending_xref)):
            # MyST gives the path of a folder, and that of a page without its suffix.
            target = (here / link["reftarget"]).resolve()
            is_page = link.get("refdomain") == "doc" and not target.is_relative_to(DOCS)
            if link["reftype"] == "myst" and (is_page or target.is_dir()):
                link.replace_self(link.children)


def append_kernel_facts(
    _: Sphinx, kind: str, name: str, value: object, __: object, lines: list[str]
) -> None:
    """Append the gradients, backends and dtypes of an op's kernels to its docstring."""
    if kind == "function":
        lines += ["", *reference.describe_op(value)]


def setup(app: Sphinx) -> None:
    """Write the pages that are made of docstrings, and register what this file adds to Sphinx."""
    reference.write_pages(DOCS / "reference" / "api")
    app.add_transform(CodeLinks)
    app.add_transform(ExtendedTypeLinks)
    app.add_transform(RepositoryLinkRemoval)
    app.add_transform(ExampleTrimming)
    app.connect("autodoc-process-docstring", append_kernel_facts)
