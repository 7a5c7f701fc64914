"""Modules whose code is a graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from ..tensor.tensor import Tensor
from .graph import Graph


class GraphModule(Module):
    """Module whose `forward` is the code of a graph.

    Parameters
    ----------
    root : Module or dict
        Has what the nodes name: it is shared. A dictionary has values by full name.
    graph : Graph
        Its nodes.
    class_name : str, default "GraphModule"
        The name of its class, of which it is the only instance.

    Attributes
    ----------
    graph : Graph
        May be set; after a change of it `recompile` is to be called.
    code : str
        The function `forward`, as it was compiled last.

    Examples
    --------
    >>> graph = fw.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_method("mul", (x, 2)))
    >>> module = fw.fx.GraphModule({}, graph)
    >>> module(fw.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Return an instance of a class of its own, which gets the code."""
        for each in cls.__mro__:
            if each.__name__ != "GraphModuleImpl" and "_is_own" not in each.__dict__:
                own = type(cls.__name__, (each,), {"_is_own": True})
                made: GraphModule = Module.__new__(own)
                return made
        raise AssertionError("a class has a base that is no class of one instance")

    def __init__(
        self,
        root: Module | Mapping[str, Any],
        graph: Graph,
        class_name: str = "GraphModule",
    ) -> None:
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attribute(root, self, node.target)
        self._code = ""
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The nodes."""
        found: Graph = self.__dict__["_graph"]
        return found

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(
                f"GraphModule: graph is a {type(graph).__name__}; it must be a Graph"
            )
        self.__dict__["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The function `forward`."""
        return self._code

    def recompile(self) -> Any:
        """Compile the code of the graph anew; return it with its globals."""
        python_code = self.graph.python_code("self")
        self._code = python_code.src
        scope = dict(python_code.globals)
        exec(
            compile(python_code.src, f"<code of {type(self).__name__}>", "exec"), scope
        )
        type(self).forward = scope["forward"]  # type: ignore[method-assign]  # its code
        return python_code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a full name, with empty modules on the way.

        Parameters
        ----------
        target : str
            As `layers.0.norm`.
        m : Module

        Returns
        -------
        bool
            False where something else than a module is on the way.
        """
        *path, name = target.split(".")
        owner: Module = self
        for each in path:
            found = getattr(owner, each, None)
            if found is None:
                found = Module()
                owner.add_module(each, found)
            if not isinstance(found, Module):
                return False
            owner = found
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a full name.

        Parameters
        ----------
        target : str

        Returns
        -------
        bool
            Whether there was one.
        """
        path, _, name = target.rpartition(".")
        owner: Any = self
        for each in path.split(".") if path else ():
            owner = getattr(owner, each, None)
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                path = node.target
                if node.op == "call_module":
                    inner = self.get_submodule(path).named_modules()
                    used.update(f"{path}.{name}" for name, _ in inner)
                while path:
                    used.add(path)
                    path = path.rpartition(".")[0]
        for name in [name for name, _ in self.named_modules()]:
            if name and name not in used:
                self.delete_submodule(name)

    def print_readable(self, print_output: bool = True) -> str:
        """Return the code as that of a class, printed by default.

        Parameters
        ----------
        print_output : bool, default True
        """
        body = "\n".join(f"    {line}" for line in self._code.strip("\n").split("\n"))
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        about = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__repr__()}\n{self._code}\n{about}"

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        plain = Module()
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers"):
            if name in self.__dict__:
                plain.__dict__[name] = copy.deepcopy(self.__dict__[name], memo)
        for name, value in self.__dict__.items():
            if name not in plain.__dict__ and name not in ("_graph", "_code"):
                plain.__dict__[name] = copy.deepcopy(value, memo)
        graph = copy.deepcopy(self.graph, memo)
        made = GraphModule(plain, graph, type(self).__name__)
        made.training = self.training
        return made


def _copy_attribute(root: Any, to: Module, target: str) -> None:
    """Share what a full name of one module means with another one."""
    if isinstance(root, Mapping):
        if target not in root:
            raise RuntimeError(
                f"GraphModule: the graph reads {target!r}, which root lacks; it has"
                f" {', '.join(root) or 'nothing'}"
            )
        value = root[target]
    else:
        value = root
        for each in target.split("."):
            value = getattr(value, each)
    *path, name = target.split(".")
    for each in path:
        found = to._modules.get(each)
        if found is None:
            found = Module()
            to.add_module(each, found)
        to = found
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter | Buffer)
    if is_plain and name not in to._buffers:
        to.register_buffer(name, value)
    else:
        setattr(to, name, value)
