"""Pages and pictures in a real browser: they load without errors and without a network, and what can be used works."""

import pytest

import plugrad
from consistency import matrix
from consistency.committed import committed_kernel_table, is_listed

# The frame of the theme, without it: where the site puts the files that the page names.
SITE = """<!DOCTYPE html><html data-theme="light"><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="../../_static/site.css"><body style="margin:8px">{}"""
PAGE_FITS_EXPRESSION = """document.documentElement.scrollWidth <= innerWidth
  && [...document.querySelectorAll('.matrix')].every(m => m.scrollWidth <= m.parentElement.clientWidth)"""
VISIBLE_KERNELS_EXPRESSION = """[...document.querySelectorAll('.matrix tbody tr')]
  .filter(r => r.checkVisibility()).map(r => r.dataset.kernel)"""


@pytest.fixture
def page(tmp_path):
    """The path of the page with the matrix of kernels."""
    folder = tmp_path / "reference" / "api"
    folder.mkdir(parents=True)
    (tmp_path / "_static").symlink_to(matrix.DOCS_FOLDER / "_static")
    path = folder / "matrix.html"
    path.write_text(SITE.format("\n".join(matrix.iter_table_html())), "utf-8")
    return path


@pytest.mark.parametrize("width", [400, 1280])
def test_filters_of_the_kernel_matrix_page(browser, page, width):
    every = list(committed_kernel_table())
    browser.open(page, width=width)
    assert browser.evaluate(VISIBLE_KERNELS_EXPRESSION) == every
    assert browser.evaluate(PAGE_FITS_EXPRESSION)
    count = "document.getElementById('count').textContent"
    assert browser.evaluate(count) == f"{len(every)} of {len(every)} kernels"

    def choose(**values):
        for name, value in values.items():
            browser.evaluate(
                f"form = document.getElementById('filters'); form.elements.{name}.value = {value!r};"
                "form.dispatchEvent(new Event('input'))"
            )
        return browser.evaluate(VISIBLE_KERNELS_EXPRESSION)

    assert choose(text="conv2d") == [name for name in every if "conv2d" in name.lower()]
    on_webgpu = [name for name in every if is_listed(name, "webgpu", "float16")]
    assert choose(text="", backend="webgpu", dtype="float16") == on_webgpu
    assert 0 < len(on_webgpu) < len(every)
    assert choose(shows="gaps") == [name for name in every if name not in on_webgpu]
    unary = [name for name in on_webgpu if matrix.family_of_kernel(name) == "unary"]
    assert choose(shows="", family="unary") == unary
    address = browser.evaluate("location.hash")
    assert address == "#family=unary&backend=webgpu&dtype=float16"
    browser.open(page, address, width=width)
    assert browser.evaluate(VISIBLE_KERNELS_EXPRESSION) == unary
    assert browser.evaluate(count) == f"{len(unary)} of {len(every)} kernels"
    hidden = "[...document.querySelectorAll('.matrix td')].filter(c => c.checkVisibility()).map(c => c.dataset.backend)"
    assert set(browser.evaluate(hidden)) == {"webgpu"}
    browser.open(page, "#dtype=nonsense", width=width)
    assert browser.evaluate(VISIBLE_KERNELS_EXPRESSION) == every
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_profile_page_loads_without_errors(browser, tmp_path, width, dark):
    x = plugrad.ones((200, 200), device="cpu")
    with plugrad.profile() as measured:
        for _ in range(3):
            y = plugrad.relu(x @ x)
    y = plugrad.sum(y)
    path = tmp_path / "profile.html"
    measured.save(path)
    browser.open(path, width=width, dark=dark)
    assert browser.evaluate(PAGE_FITS_EXPRESSION)
    assert browser.evaluate("document.querySelector('#summary').textContent").startswith(
        "6 calls of 2"
    )
    names = "[...document.querySelectorAll('#kernels .name')].map(n => n.textContent)"
    assert sorted(browser.evaluate(names)) == ["BatchMatMul cpu:0", "Relu cpu:0"]
    browser.evaluate("at('filter').value = 'RELU'; at('filter').oninput()")
    assert browser.evaluate(names) == ["Relu cpu:0"]
    colours = (
        "new Set(new Uint32Array(at({!r}).getContext('2d').getImageData(0, 0, at({!r}).width, "
        "at({!r}).height).data.buffer)).size"
    )
    for canvas in ("timeline", "memory"):
        assert browser.evaluate(colours.format(canvas, canvas, canvas)) > 3, f"{canvas} is empty"
    browser.evaluate("at('closer').click(); at('later').click()")
    assert browser.evaluate("to - from < end / 1.9 && from > 0")
    browser.evaluate("at('whole').click(); describe(events[0])")
    assert browser.evaluate("from === 0 && to === end")
    assert "BatchMatMul: " in browser.evaluate("at('about').textContent")
    assert browser.errors == []


def test_page_of_an_empty_profile(browser, tmp_path):
    with plugrad.profile(synchronize=False) as measured:
        pass
    measured.save(tmp_path / "profile.html")
    browser.open(tmp_path / "profile.html")
    assert "Not measured" in browser.evaluate("at('peak').textContent")
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_of_a_graph_fits_its_box_and_can_be_read(browser, tmp_path, dark):
    def network(weights, x):
        return plugrad.sum(plugrad.relu(plugrad.conv2d(x, weights, padding="same")))

    args = plugrad.ones((3, 3, 1, 8), device="cpu"), plugrad.ones((16, 28, 28, 1), device="cpu")
    path = tmp_path / "graph.svg"
    plugrad.plot_graph(network, *args).save(path)
    browser.open(path, dark=dark)
    beyond = """[...document.querySelectorAll('g > g')].flatMap(g => {
      const box = g.querySelector('rect').getBoundingClientRect();
      return [...g.querySelectorAll('text')].map(t => t.getBoundingClientRect())
        .map(t => Math.max(box.left - t.left, t.right - box.right, box.top - t.top, t.bottom - box.bottom));
    })"""
    assert max(browser.evaluate(beyond)) < 0
    contrast = """(() => {
      const light = colour => {
        const [r, g, b] = colour.match(/[0-9.]+/g).map(c => c / 255)
          .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b + .05;
      };
      return [...document.querySelectorAll('g > g')].flatMap(g => [...g.querySelectorAll('text')].map(t => {
        const pair = [light(getComputedStyle(t).fill), light(getComputedStyle(g.querySelector('rect')).fill)];
        return Math.max(...pair) / Math.min(...pair);
      }));
    })()"""
    assert (
        min(browser.evaluate(contrast)) >= 4.5
    )  # the Web Content Accessibility Guidelines ask for it
    assert browser.errors == []


SITE_PAGES = (
    "index.html",
    "reference/api/convolution.html",
    "reference/api/matrix.html",
    "explanation/life-of-a-call.html",
)


@pytest.mark.parametrize("page", SITE_PAGES)
def test_pages_of_the_site_fit_the_window(browser, page):
    path = matrix.DOCS_FOLDER / "_build" / "html" / page
    if not path.exists():
        pytest.skip("`make site` has not been run")
    for width, dark in ((1280, False), (400, True)):
        browser.open(path, width=width, dark=dark)
        assert browser.evaluate(PAGE_FITS_EXPRESSION), (
            f"at {width} pixels, the page is {browser.evaluate('document.documentElement.scrollWidth')} wide"
        )
        theme = browser.evaluate("document.documentElement.dataset.theme")
        assert theme == ("dark" if dark else "light")
        assert browser.errors == []
