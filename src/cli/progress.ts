const WIDTH = 30;

export type Progress = {
  /** `fraction` 0..1; undefined where nobody knows. `aside` changes all the time: only a terminal shows it. */
  show: (what: string, fraction?: number, aside?: string) => void;
  /** Takes the bar away: what comes next starts on a clean line. */
  end: () => void;
};

export const SILENT: Progress = { show: () => {}, end: () => {} };

type Out = { isTTY?: boolean; columns?: number; write: (text: string) => unknown };

/** A bar that moves on a terminal; elsewhere a line for each new stage and each further tenth. */
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
    const room = (out.columns || 80) - 1; // a line that wraps cannot be drawn over
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
