/** The first rows of a CSV file, for its preview: quotes, doubled quotes and line breaks inside quotes. Pure. */
export type CsvRow = { line: number; cells: string[] };

/** `isWhole` false: the last record may be cut, and is left out. */
export function csvRows(text: string, delimiter: string, isWhole: boolean, most: number): CsvRow[] {
  const rows: CsvRow[] = [];
  let [at, line] = [0, 1];
  while (at < text.length && rows.length < most) {
    const begun = line;
    const cells: string[] = [];
    for (let isOpen = true; isOpen; ) {
      const quoted = text[at] === '"';
      let cell = "";
      if (quoted) {
        at++;
        for (;;) {
          const end = text.indexOf('"', at);
          if (end < 0) return rows; // cut inside quotes, or never closed
          cell += text.slice(at, end);
          at = end + 1;
          if (text[at] !== '"') break;
          cell += '"';
          at++;
        }
        line += cell.split("\n").length - 1;
      }
      const rest = restOfCell(text, at, delimiter);
      cell += text.slice(at, rest);
      at = rest;
      cells.push(quoted ? cell : cell.replace(/\r$/, ""));
      isOpen = text[at] === delimiter;
      if (isOpen) at++;
    }
    if (at >= text.length && !isWhole) return rows;
    if (text[at] === "\r") at++;
    if (text[at] === "\n") at++;
    line++;
    if (cells.length > 1 || cells[0] !== "") rows.push({ line: begun, cells });
  }
  return rows;
}

function restOfCell(text: string, from: number, delimiter: string): number {
  let at = from;
  while (at < text.length && text[at] !== delimiter && text[at] !== "\n") at++;
  return at;
}
