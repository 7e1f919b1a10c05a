/** Bodies that cost a careless server the most: as many values, keys or bytes as a route takes, in the wrong places. */
export type Room = { bytes: number; values: number };
export type Hostile = { name: string; body: string };

const many = (item: (i: number) => string, each: number, { bytes, values }: Room): string => {
  const count = Math.max(1, Math.min(Math.floor(values / each), Math.floor((bytes - 200) / (item(99_999).length + 1))));
  return Array.from({ length: count }, (_, i) => item(i)).join(",");
};

/** Values for one field. `each`: how many values the scan counts for one item. */
const CROWDS: Readonly<Record<string, (room: Room) => string>> = {
  "lists of one": (room) => `[${many(() => "[1]", 2, room)}]`,
  "empty objects": (room) => `[${many(() => "{}", 2, room)}]`,
  "bad messages": (room) => `[${many(() => '{"role":"x","content":[{}]}', 5, room)}]`,
  texts: (room) => `[${many(() => '""', 1, room)}]`,
  numbers: (room) => `[${many(() => "1.50", 1, room)}]`,
  "many keys": (room) => `{${many((i) => `"k${i}":1`, 1, room)}}`,
  "keys of lists": (room) => `{${many((i) => `"k${i}":[[]]`, 3, room)}}`,
};
/** Few values and all the bytes. */
const LONG: Readonly<Record<string, (room: Room) => string>> = {
  "one long key": ({ bytes }) => `{"${"x".repeat(Math.max(1, bytes - 200))}":1}`,
  "one long text": ({ bytes }) => `"${"\\n".repeat(Math.max(1, Math.floor((bytes - 200) / 2)))}"`,
};

/** Most routes have the same room, and a crowd of ten million bytes takes long to write. */
const written = new Map<string, string>();
function crowdOf(shape: string, fill: (room: Room) => string, room: Room): string {
  const name = `${shape} ${room.bytes} ${room.values}`;
  const value = written.get(name) ?? fill(room);
  written.set(name, value);
  return value;
}

export type Choose = (fields: readonly string[]) => readonly string[];

/** Every crowd in the fields that `choose` takes for it, long ones in some of those, and all as the body itself. */
export function* hostileBodies(fields: readonly string[], choose: Choose, room: Room): Generator<Hostile> {
  for (const [shape, fill] of Object.entries({ ...CROWDS, ...LONG })) {
    const value = crowdOf(shape, fill, room);
    yield { name: `${shape} as the body`, body: value };
    for (const field of choose(shape in LONG ? fields.slice(0, 3) : fields)) {
      const others = Object.fromEntries(Object.entries(VALID).filter(([name]) => name !== field));
      const before = JSON.stringify(others).slice(1, -1);
      yield { name: `${shape} in ${field}`, body: `{${before}${before && ","}"${field}":${value}}` };
    }
  }
}

/** Fields that some routes check before the rest. */
const VALID = { model: "x", method: "sft", base_model: "verk-tiny", name: "x", url: "https://example.com" };
