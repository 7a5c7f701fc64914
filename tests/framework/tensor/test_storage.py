"""Storages, as programs ask for them."""

import vkbackend.framework as fw


def test_storages() -> None:
    x = fw.arange(6, dtype=fw.int32)
    view = x.reshape(2, 3)[1]
    assert view.untyped_storage() == x.untyped_storage()
    assert view.untyped_storage() != x.clone().untyped_storage()
    assert view.untyped_storage().data_ptr() == x.data_ptr() == view.data_ptr() - 12
    assert (x.untyped_storage().nbytes(), len(view.storage())) == (24, 6)
    assert view.storage().tolist() == [0, 1, 2, 3, 4, 5]
    assert (view.storage()[1], view.storage().dtype) == (1, fw.int32)
    before = x.data_ptr()
    x += 1
    assert x.data_ptr() == before
    assert view.storage().untyped().size() == 24
