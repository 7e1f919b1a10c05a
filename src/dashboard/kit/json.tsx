/** A JSON value as a tree that folds. Everything is text. */
export function Json({ value, name, open = true }: { value: unknown; name?: string | undefined; open?: boolean }) {
  const label = name === undefined ? "" : `${name}: `;
  if (typeof value !== "object" || value === null) {
    return (
      <div class="json">
        {label}
        <span class={value === null ? "null" : typeof value}>{JSON.stringify(value)}</span>
      </div>
    );
  }
  const entries = Object.entries(value);
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return <div class="json">{`${label}${left}${right}`}</div>;
  return (
    <details class="json" open={open}>
      <summary>{`${label}${left} ${entries.length} ${right}`}</summary>
      {entries.map(([key, child]) => (
        <Json key={key} name={key} value={child} open={open && entries.length < 30} />
      ))}
    </details>
  );
}
