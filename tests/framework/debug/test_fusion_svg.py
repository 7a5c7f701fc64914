"""The picture of a report: well-formed, everything inside, nothing unescaped."""

import xml.etree.ElementTree as ET

from vkbackend.framework.debug.fusion_svg import Arrow, Box, draw

NAME = "{http://www.w3.org/2000/svg}"
BOXES = [
    Box("kernel 1", ("relu (4,) float32", "exp <&> (4,)"), True),
    Box("kernel 2", ("bmm (1, 2, 2) float32",), False),
    Box("kernel 3", (), True),
]
EDGES = [Arrow(0, 1, "hand-written: bmm"), Arrow(1, 2, "a < b"), Arrow(0, 2, "shapes")]


def test_nothing() -> None:
    root = ET.fromstring(draw("empty", []))
    assert [text.text for text in root.iter(f"{NAME}text")] == ["empty"]


def test_every_box_and_edge_is_there_once() -> None:
    root = ET.fromstring(draw("all", [("first", BOXES, EDGES), ("second", BOXES, [])]))
    kinds = [box.get("class") for box in root.iter(f"{NAME}rect") if box.get("class")]
    assert kinds == ["made", "hand", "made"] * 2
    titles = [title.text for title in root.iter(f"{NAME}title")]
    assert titles == [edge.reason for edge in EDGES]
    texts = [text.text for text in root.iter(f"{NAME}text")]
    assert texts.count("exp <&> (4,)") == 2
    assert "2: a < b" in texts


def test_boxes_do_not_overlap_and_lie_inside() -> None:
    root = ET.fromstring(draw("all", [("first", BOXES, EDGES), ("second", BOXES, [])]))
    frames = [
        tuple(float(box.get(key) or 0) for key in ("x", "y", "width", "height"))
        for box in root.iter(f"{NAME}rect")
    ]
    whole, *boxes = frames
    for at, (x, y, width, height) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + width <= whole[2]
        assert y + height <= whole[3]
        for a, b, c, d in boxes[at + 1 :]:
            assert x + width <= a or a + c <= x or y + height <= b or b + d <= y
