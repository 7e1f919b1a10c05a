/** Random JSON schemas of the supported kind, small enough to be read when one fails. */
type Random = () => number;

export function randomSchema(random: Random): object {
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
  const some = (chance: number) => random() < chance;
  const upTo = (max: number) => Math.floor(random() * (max + 1));

  const string = () => {
    if (some(0.2)) return { type: "string", format: pick(["date", "date-time", "uuid", "email", "ipv4"]) };
    if (some(0.2)) return { type: "string", pattern: pick(["^[a-f]{2,3}$", "^x\\d+$", "^(on|off)$", "a"]) };
    const min = upTo(3);
    return {
      type: "string",
      ...(some(0.5) ? { minLength: min } : {}),
      ...(some(0.5) ? { maxLength: min + upTo(5) } : {}),
    };
  };
  const number = () => {
    const type = pick(["integer", "number"]);
    const low = Math.round((random() - 0.5) * 2000) / pick([1, 10, 100]);
    const high = low + 1 + upTo(1000);
    return {
      type,
      ...(some(0.4) ? { [pick(["minimum", "exclusiveMinimum"])]: low } : {}),
      ...(some(0.4) ? { [pick(["maximum", "exclusiveMaximum"])]: high } : {}),
    };
  };
  const object = (depth: number, mayBeOpen = true) => {
    const names = ["a", "b", "ab", "name", "x y", "ü"].filter(() => some(0.5));
    const properties = Object.fromEntries(names.map((name) => [name, schema(depth - 1)]));
    const open = mayBeOpen && some(0.3) ? { additionalProperties: some(0.5) ? true : schema(0) } : {};
    return { type: "object", properties, required: names.filter(() => some(0.5)), ...open };
  };
  const array = (depth: number) => {
    const min = upTo(2);
    const tuple = some(0.2) ? { prefixItems: [schema(0), schema(0)] } : {};
    return {
      type: "array",
      items: schema(depth - 1),
      ...tuple,
      ...(some(0.5) ? { minItems: min } : {}),
      ...(some(0.5) ? { maxItems: min + upTo(4) } : {}),
    };
  };
  const schema = (depth: number): object => {
    const leaves = [
      string,
      number,
      () => ({ type: "boolean" }),
      () => ({ type: "null" }),
      () => ({ enum: ["r", 1, null] }),
    ];
    if (depth <= 0) return pick(leaves)();
    const any = () => ({ anyOf: [schema(depth - 1), schema(depth - 1)] });
    const all = () => ({ allOf: [object(depth - 1, false), { type: "object", properties: { extra: schema(0) } }] });
    const reference = () => ({ $ref: "#/$defs/shared" });
    return pick([...leaves, () => object(depth), () => object(depth), () => array(depth), any, all, reference])();
  };
  return { $defs: { shared: pick([string, number])() }, ...object(3) };
}
