"""Version of the library."""

import vkbackend
import vkbackend.framework as fw


def test_version() -> None:
    assert fw.__version__ == fw.version.__version__ == vkbackend.__version__
    assert fw.version.cuda is fw.version.hip is None
