# How tests are compiled, so that their operators go through the judge: the fourth part of code_tests.

class Judged(ast.NodeTransformer):
    """Operators, calls and asserts of a test go through the judge."""

    def through(self, name, *given):
        return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(given), keywords=[])

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            same = self.through(SAME, node.left, node.comparators[0])
            return same if isinstance(node.ops[0], ast.Eq) else ast.UnaryOp(op=ast.Not(), operand=same)
        node.left = self.through(VALUE, node.left)
        inside = [isinstance(each, (ast.In, ast.NotIn)) for each in node.ops]
        node.comparators = [self.through(ITEMS if is_in else VALUE, each) for each, is_in in zip(node.comparators, inside)]
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        node.left, node.right = self.through(VALUE, node.left), self.through(VALUE, node.right)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        node.func = self.through(CALLED, node.func)
        return node

    def visit_Assert(self, node):
        self.generic_visit(node)
        node.test = self.through(TRUTH, node.test)
        return node


def compiled_tests(text):
    """Statements to run in order, each with whether it is a test; the names in them; the classes that they make."""
    tree = ast.parse(text, "tests.py")
    top = [isinstance(each, ast.Assert) for each in tree.body]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    tree = ast.fix_missing_locations(Judged().visit(tree))
    # A text without an assert at its top is one test.
    groups = [([each], is_test) for each, is_test in zip(tree.body, top)] if any(top) else [(tree.body, True)]
    return [(compile(ast.Module(body, []), "tests.py", "exec"), is_test) for body, is_test in groups], names, classes


def judge_names(names, classes, solution):
    """What a test sees: the code's names, and the judge's."""
    own_classes = any(isinstance(solution.get(n), type) and id(solution[n]) not in KNOWN for n in names)
    used = [n for n in names if n in solution]
    # A builtin is what it is, unless it is the only thing of the code that is tested: `assert max(1, 2) == 2`.
    hidden = set() if all(hasattr(builtins, n) for n in used) else {n for n in used if hasattr(builtins, n)}
    seen = {n: v for n, v in solution.items() if n not in hidden and not n.startswith("__")}

    def lying(found):
        return lies(found, [id(seen[n]) for n in classes if n in seen and seen[n] is not solution.get(n)])

    def value(found):
        if not own_classes and lying(found):
            raise AssertionError("a value with operators that the code wrote")
        return found

    def same(left, right):
        return lying(left) == lying(right) and bool(value(left) == value(right))

    def items(found):
        return value(found if own_classes or any(type(found) is kind for kind in SEARCHED) else list(value(found)))

    def called(found):
        # What a function of a library does with its arguments goes past the judge.
        if own_classes or getattr(found, "__module__", None) in (None, "builtins", "tests", "solution"):
            return found
        return lambda *given, **named: found(*map(value, given), **named)

    judge = {SAME: same, VALUE: value, ITEMS: items, CALLED: called, TRUTH: lambda v: bool(value(v))}
    seen |= {"__name__": "tests", "__builtins__": builtins, **judge}
    return seen
