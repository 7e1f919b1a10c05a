import { createViewer, type Viewer } from "../jobs/follow.ts";
import { createScreen } from "../jobs/screen.ts";
import { liveLines } from "../jobs/view.ts";

type Out = { isTTY?: boolean; columns?: number; write: (text: string) => unknown };
export const SILENT_VIEWER: Viewer = { show: () => {}, end: () => {} };

/** Draws below the line of the current step and removes the drawing when the step is done. */
export function stepViewer(out: Out): Viewer {
  if (!out.isTTY) return createViewer(out);
  const screen = createScreen(out);
  let drawn = false;
  return {
    show(state) {
      if (!drawn) out.write("\n");
      drawn = true;
      screen.draw(liveLines(state, screen.columns - 2).map((line) => `  ${line}`));
    },
    end() {
      screen.end();
      if (drawn) out.write("\x1b[1A");
    },
  };
}
