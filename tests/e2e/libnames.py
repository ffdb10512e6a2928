"""Judges what tests/unit/test_export.c rendered of graphs with hostile names: libnames.py FILE COUNT, a JSON object in each
line: {"names": [...], "torch", "checkpoint", "dot", "graph": texts}. Python admits only an allow-list of syntax nodes,
and text of the graph in one string alone, out of which it comes as it went in; DOT goes through a strict parser."""
import ast
import json
import re
import sys

NODES = set("""
    Module Import alias Expr Assign Constant Name Load Store Del Attribute Call keyword FunctionDef arguments arg Return
    If For While With withitem Try Raise Delete Tuple List Dict ListComp GeneratorExp comprehension IfExp Compare BoolOp And
    Or UnaryOp USub Not BinOp Add Sub Mult Div FloorDiv Mod Pow BitOr BitAnd BitXor LShift RShift Starred Subscript Slice
    Lambda Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn AugAssign Pass
    """.split())
MODULES = {"json", "math", "torch", "torch.nn.functional", "functools", "torch.utils.checkpoint"}


# ---- Python ----


def python_problem(text, names):
    """What is wrong with a module, or None. Names may stand in one string alone, and come out of it as they went in."""
    if not text.isascii():
        return "text that is not ASCII"
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if type(node).__name__ not in NODES:
            return "a node %s" % type(node).__name__
        if isinstance(node, ast.Import) and {a.name for a in node.names} - MODULES:
            return "an import of %s" % node.names[0].name
        if isinstance(node, ast.Name) and node.id in ("eval", "exec", "compile", "open", "__import__", "globals", "vars"):
            return "the name %s" % node.id
    lists = [json.loads(node.args[0].value) for node in ast.walk(tree)
             if isinstance(node, ast.Call) and ast.unparse(node.func) == "json.loads"]
    found = [name for names_of_call in lists for name in names_of_call]
    if names is not None and sorted(found) != sorted(names):
        return "names %r, not %r" % (found, names)
    return None


# ---- DOT ----

TOKEN = re.compile(r'\s*(?:("(?:[^"\\\n]|\\["\\nlrN])*")|([A-Za-z_][A-Za-z_0-9]*)|(-?[0-9]+)|(->|[{}\[\]=,;]))')


class Dot:
    """graph: digraph [ID] { statements }; a statement is a node, an edge, an attribute or a subgraph."""

    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise SyntaxError("not DOT: %r" % text[at:at + 40])
            self.tokens.append(match.group().strip())
            at = match.end()
        self.at, self.nodes, self.edges = 0, set(), []

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *allowed):
        token = self.peek()
        if not token or allowed and token not in allowed:
            raise SyntaxError("%r where %r must be" % (token, allowed))
        self.at += 1
        return token

    def identifier(self):
        token = self.take()
        if not (token[0] == '"' or token[0].isalnum() or token[0] in "_-") or token == "->":
            raise SyntaxError("%r is no identifier" % token)
        return token

    def attributes(self):
        self.take("[")
        while self.peek() != "]":
            self.identifier()
            self.take("=")
            self.identifier()
            if self.peek() == ",":
                self.take()
        self.take("]")

    def statement(self):
        if self.peek() == "subgraph":
            self.take()
            self.identifier()
            self.body()
            return
        name = self.identifier()
        if self.peek() == "=":
            self.take()
            self.identifier()
        elif self.peek() == "->":
            self.take()
            self.edges.append((name, self.identifier()))
        elif name not in ("node", "edge", "graph"):
            self.nodes.add(name)
        if self.peek() == "[":
            self.attributes()

    def body(self):
        self.take("{")
        while self.peek() != "}":
            self.statement()
            if self.peek() == ";":
                self.take()
        self.take("}")

    def parse(self):
        self.take("digraph")
        if self.peek() != "{":
            self.identifier()
        self.body()
        if self.at != len(self.tokens):
            raise SyntaxError("text after the graph")
        return self


def dot_problem(text, nodes, edges):
    dot = Dot(text).parse()
    if len(dot.nodes) != nodes or len(dot.edges) != edges:
        return "%d nodes and %d edges, not %d and %d" % (len(dot.nodes), len(dot.edges), nodes, edges)
    if not all(a in dot.nodes and b in dot.nodes for a, b in dot.edges):
        return "an edge to nowhere"
    return None


def test_judges():
    """The judges see what they are for; what they overlook."""
    overlooked = []
    for text in ("import os", "class A: pass", "NAMES = json.loads('[\"a\"]')", "f'{x}'", "eval(x)",
                 "async def f(): pass", "x = '\xe9'"):
        if python_problem(text, []) is None:
            overlooked.append(text)
    for text in ("digraph g { a [label=\"x\"y\"]; }", "digraph { a -> ; }", "digraph { } b", "digraph { a [x=\"\n\"] }"):
        try:
            dot_problem(text, 1, 0)
            overlooked.append(text)
        except SyntaxError:
            pass
    return overlooked


def judge(made):
    return {"torch": python_problem(made["torch"], made["names"]), "checkpoint": python_problem(made["checkpoint"], None),
            "dot": dot_problem(made["dot"], 3, 1), "graph": dot_problem(made["graph"], 6, 6)}


def main():
    graphs, failures = 0, ["the judge overlooks %r" % text for text in test_judges()]
    for line in open(sys.argv[1], encoding="utf-8"):
        graphs += 1
        made = json.loads(line)
        try:
            failures += ["graph %d, %s: %s" % (graphs, what, problem) for what, problem in judge(made).items() if problem]
        except (SyntaxError, ValueError) as error:
            failures.append("graph %d: %s" % (graphs, error))
    print("%d graphs" % graphs, *failures[:20], sep="\n")
    sys.exit(1 if failures or graphs != int(sys.argv[2]) else 0)


if __name__ == "__main__":
    main()
