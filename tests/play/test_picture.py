"""The tab Picture, as a person uses it."""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image
from visits import button, open_options, ready

from glauber.serve.pictures import read_png

pytestmark = pytest.mark.browser


@pytest.fixture
def desk(page):
    """The tab, open."""
    page.get_by_role("tab", name="Picture").click()
    page.get_by_label("How many pictures").fill("3")
    return page


def sampled(desk):
    """With a picture to paint on."""
    button(desk, "Sample pictures").click()
    desk.get_by_text(re.compile("3 pictures in")).wait_for()
    button(desk, "Paint on this").nth(1).click()


def stroke(desk, *places):
    """From one place to the next, in parts of the picture."""
    box = desk.locator(".canvas").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
    desk.mouse.move(*at[0])
    desk.mouse.down()
    for place in at[1:]:
        desk.mouse.move(*place, steps=4)
    desk.mouse.up()


def hole(desk) -> np.ndarray:
    """(8, 8) bool, what is painted."""
    found = desk.locator(".canvas canvas").evaluate(
        "(c) => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)"
    )
    return np.array(found).reshape(8, 8, 4)[..., 3] == 255


def pictures(desk) -> list[str]:
    return desk.locator(".shelf img").evaluate_all("(images) => images.map((image) => image.src)")


def test_pictures_of_a_class_are_sampled_and_the_chain_is_seen(desk):
    desk.get_by_label("Class").select_option("bag")
    open_options(desk)
    desk.get_by_label("Calls").fill("16")
    desk.get_by_label("Calls").press("Tab")
    with desk.expect_request("**/v1/images/sample") as sent:
        sampled(desk)
    asked = json.loads(sent.value.post_data)
    assert (asked["class"], asked["n"], asked["calls"]) == ("bag", 3, 16)
    final = pictures(desk)
    assert len(set(final)) == 3
    scrubber = desk.get_by_label("Step of the chain")
    assert int(scrubber.get_attribute("max")) >= 8
    scrubber.fill("0")
    assert all(now != then for now, then in zip(pictures(desk), final, strict=True))
    scrubber.fill(scrubber.get_attribute("max"))
    assert pictures(desk) == final
    assert desk.locator(".canvas img").get_attribute("src") == final[1]


def test_a_hole_is_painted_erased_undone_cleared_and_filled(desk):
    assert button(desk, "Fill the hole").is_disabled()
    sampled(desk)
    desk.get_by_label("Size of the brush").fill("2")
    stroke(desk, (0.3, 0.3), (0.7, 0.3))
    painted = hole(desk)
    assert 3 <= painted.sum() <= 16
    assert painted[2, 3]
    button(desk, "Eraser").click()
    stroke(desk, (0.3, 0.3), (0.31, 0.3))
    assert 0 < hole(desk).sum() < painted.sum()
    desk.keyboard.press("Control+z")
    assert (hole(desk) == painted).all()
    button(desk, "Clear the hole").click()
    assert not hole(desk).any()
    button(desk, "Undo").click()
    assert (hole(desk) == painted).all()
    given = read_png(desk.locator(".canvas img").get_attribute("src"), "picture")
    with desk.expect_request("**/v1/images/inpaint") as sent:
        button(desk, "Fill the hole").click()
        desk.get_by_text("Accept the one you like best").wait_for()
    assert ((read_png(json.loads(sent.value.post_data)["mask"], "mask") > 127) == painted).all()
    fills = [read_png(url, "picture") for url in pictures(desk)]
    assert all((fill[~painted] == given[~painted]).all() for fill in fills)
    assert any((fill != given).any() for fill in fills)
    chosen = pictures(desk)[2]
    button(desk, "Accept").nth(2).click()
    assert desk.locator(".canvas img").get_attribute("src") == chosen
    assert not hole(desk).any()
    button(desk, "Undo").click()
    assert (hole(desk) == painted).all()


def test_a_mask_is_uploaded_in_any_size(desk):
    sampled(desk)
    mask = np.zeros((32, 32), np.uint8)
    mask[:16] = 255
    content = io.BytesIO()
    Image.fromarray(mask).save(content, "png")
    desk.get_by_label("Mask").set_input_files({"name": "mask.png", "mimeType": "image/png", "buffer": content.getvalue()})
    desk.get_by_text("The mask is painted into the picture.").wait_for()
    assert (hole(desk) == (np.arange(8) < 4)[:, None]).all()
    desk.get_by_label("Mask").set_input_files({"name": "mask.png", "mimeType": "image/png", "buffer": b"no picture"})
    desk.get_by_text("That file is no picture").wait_for()
    assert hole(desk).sum() == 32


def test_the_hole_is_painted_by_keyboard(desk):
    sampled(desk)
    desk.get_by_label("Size of the brush").fill("1")
    desk.locator(".canvas").focus()
    for key in ("ArrowLeft", "ArrowUp", " "):
        desk.keyboard.press(key)
    assert np.argwhere(hole(desk)).tolist() == [[3, 3]]


def test_picture_and_hole_are_there_after_a_reload(desk):
    sampled(desk)
    stroke(desk, (0.2, 0.2), (0.5, 0.5))
    painted, picture = hole(desk), desk.locator(".canvas img").get_attribute("src")
    desk.reload()
    desk.locator(".canvas img[src]").wait_for()
    assert (hole(desk) == painted).all()
    assert desk.locator(".canvas img").get_attribute("src") == picture
    assert len(pictures(desk)) == 3


def test_the_class_is_kept_on_another_tab_and_over_a_reload(desk):
    for choice in ("bag", ""):
        desk.get_by_label("Class").select_option(choice)
        desk.get_by_role("tab", name="Write").click()
        desk.get_by_role("tab", name="Picture").click()
        assert desk.get_by_label("Class").input_value() == choice
        desk.reload()
        ready(desk)
        assert desk.get_by_label("Class").input_value() == choice


def test_a_picture_is_copied_as_curl_and_python(desk, models, monkeypatch, tmp_path):
    sampled(desk)
    open_options(desk)
    button(desk, "Python").click()
    desk.get_by_text("The Python code is in the clipboard.").wait_for()
    code = desk.evaluate("navigator.clipboard.readText()")
    monkeypatch.chdir(models)
    exec(compile(code, "copied", "exec"), {})
    assert (models / "2.png").is_file()
    button(desk, "curl").click()
    desk.get_by_text("The command is in the clipboard.").wait_for()
    assert "/v1/images/sample" in desk.evaluate("navigator.clipboard.readText()")
