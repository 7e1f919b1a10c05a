const WIDTH = 30;

export type Progress = {
  /** `fraction`: 0 to 1, or undefined if unknown. `aside` changes often, so only a terminal shows it. */
  show: (what: string, fraction?: number, aside?: string) => void;
  /** Removes the bar, so that the next output starts on a clean line. */
  end: () => void;
};

export const SILENT: Progress = { show: () => {}, end: () => {} };

type Out = { isTTY?: boolean; columns?: number; write: (text: string) => unknown };

/** Shows a progress bar on a terminal; elsewhere prints a line for each stage and for each further 10 %. */
export function createProgress(out: Out = process.stderr): Progress {
  let last = "";
  const say = (what: string, fraction?: number) => {
    const tenths = fraction === undefined ? "" : ` ${Math.floor(fraction * 10) * 10} %`;
    if (what + tenths !== last) out.write(`${what}${tenths}\n`);
    last = what + tenths;
  };
  const draw = (stage: string, fraction?: number, aside?: string) => {
    const what = aside === undefined ? stage : `${stage}  ${aside}`;
    const filled = Math.round((fraction ?? 0) * WIDTH);
    const bar = `${"█".repeat(filled)}${"░".repeat(WIDTH - filled)} ${String(Math.floor((fraction ?? 0) * 100)).padStart(3)} %`;
    const line = fraction === undefined ? what : `${bar}  ${what}`;
    const room = (out.columns || 80) - 1; // a line that wraps cannot be redrawn
    if (line !== last) out.write(`\r\x1b[K${line.length > room ? `${line.slice(0, room - 1)}…` : line}`);
    last = line;
  };
  return {
    show: out.isTTY ? draw : say,
    end() {
      if (out.isTTY && last !== "") out.write("\r\x1b[K");
      last = "";
    },
  };
}
