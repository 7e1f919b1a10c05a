import { createViewer, type Viewer } from "../jobs/follow.ts";
import { createScreen } from "../jobs/screen.ts";
import { liveLines } from "../jobs/view.ts";

type Out = { isTTY?: boolean; columns?: number; write: (text: string) => unknown };
export const SILENT_VIEWER: Viewer = { show: () => {}, end: () => {} };

/** Below the step's own line, which is still open; taken away when the step is done. */
export function stepViewer(out: Out): Viewer {
  if (!out.isTTY) return createViewer(out);
  const screen = createScreen(out);
  let drawn = false;
  return {
    show(seen) {
      if (!drawn) out.write("\n");
      drawn = true;
      screen.draw(liveLines(seen, screen.columns - 2).map((line) => `  ${line}`));
    },
    end() {
      screen.end();
      if (drawn) out.write("\x1b[1A");
    },
  };
}
