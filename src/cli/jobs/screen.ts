/** Lines that are redrawn in place on a terminal. */
type Out = { isTTY?: boolean; columns?: number; write: (text: string) => unknown };

export type Screen = {
  readonly columns: number;
  draw: (lines: readonly string[]) => void;
  /** Removes the lines, unless `keep` is set. */
  end: (how?: { keep: boolean }) => void;
};

const UP = (lines: number) => (lines > 0 ? `\x1b[${lines}A` : "");

export function createScreen(out: Out = process.stderr): Screen {
  let shown: readonly string[] = [];
  const home = () => `\r${UP(shown.length)}`;
  return {
    get columns() {
      return out.columns || 80;
    },
    draw(lines) {
      if (lines.length === shown.length && lines.every((line, i) => line === shown[i])) return;
      const below = shown.length > lines.length ? "\x1b[J" : "";
      out.write(`${home()}${lines.map((line) => `\x1b[K${line}\n`).join("")}${below}`);
      shown = lines;
    },
    end({ keep } = { keep: false }) {
      if (!keep && shown.length > 0) out.write(`${home()}\x1b[J`);
      shown = [];
    },
  };
}
