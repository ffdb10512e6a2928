"""Judges a file of ONNX models (for each a line "SIZE LABEL", then its bytes) by ONNX's own checker: COUNT of them, all
valid, with shapes that its inference agrees with. Left out loudly where Python has no onnx."""
import sys

del sys.path[0]  # its onnx.py is not the one that is meant
try:
    import onnx
    import onnx.checker
    import onnx.defs
    import onnx.shape_inference
except ImportError:
    print("SKIPPED: no onnx (Debian's python3-onnx); models are not judged by ONNX's checker")
    sys.exit(0)


def models(path):
    with open(path, "rb") as file:
        while True:
            head = file.readline().decode()
            if not head:
                return
            size, label = head.rstrip("\n").split(" ", 1)
            yield label, file.read(int(size))


def type_names():
    """elem_type -> "tensor(float)"."""
    names = {v: k.lower() for k, v in onnx.TensorProto.DataType.items()}
    return {number: "tensor(%s)" % name for number, name in names.items()}


def misfit(node, types):
    """The checker does not hold dtypes against the operators' schemas: the first that does not fit, or None."""
    names = type_names()
    schema = onnx.defs.get_schema(node.op_type, 17)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for i, name in enumerate(node.input):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if name and names[types[name]] not in allowed.get(formal.typeStr, [formal.typeStr]):
            return "%s of %s" % (node.op_type, names[types[name]])
    return None


def problem(data):
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(model)
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as e:
        return str(e)
    graph = model.graph
    types = {v.name: v.type.tensor_type.elem_type for v in [*graph.input, *graph.output, *graph.value_info]}
    types.update((t.name, t.data_type) for t in graph.initializer)
    return next(filter(None, (misfit(node, types) for node in graph.node)), None)


def main():
    count = wrong = 0
    for label, data in models(sys.argv[1]):
        why = problem(data)
        count += 1
        wrong += why is not None
        if why is not None:
            print("%s: %s" % (label, " ".join(why.split())[:300]))
    print("ONNX's checker: %d models, %d refused" % (count, wrong))
    sys.exit(count != int(sys.argv[2]) or wrong > 0)


main()
