/** Builds a value once for each object it is asked with; the value goes when the object does. */
export function oncePer<K extends WeakKey, V>(build: (key: K) => V): (key: K) => V {
  const built = new WeakMap<K, V>();
  return (key) => {
    let value = built.get(key);
    if (value === undefined) {
      value = build(key);
      built.set(key, value);
    }
    return value;
  };
}
