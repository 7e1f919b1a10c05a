/** Storing of the conversation that is shown. What is stored stays stored, and no conversation is lost to another. */
import { may } from "../../data/session.ts";
import { attempt, toast } from "../../shell/toasts.tsx";
import type { Board } from "./board.ts";
import { store } from "./saved.ts";

/** One after the other: a turn is stored below the one before it. */
let storing: Promise<unknown> = Promise.resolve();

/** Stores new turns of a conversation that is kept. */
export function sync(board: Board): Promise<unknown> {
  const { saved } = board;
  storing = storing.then(async () => {
    const kept = saved.value;
    if (!kept) return;
    const done = await attempt(() => store(kept, board.trees.value, board.fields.value).then(() => true));
    if (!done && kept.parts.size === 0 && saved.value === kept) saved.value = undefined;
  });
  return storing;
}

/** Called before another conversation takes the place of this one. */
export async function keepUnsaved(board: Board) {
  const hasTurns = [...board.trees.value.values()].some(({ turns }) => turns.size > 0);
  if (!hasTurns || board.saved.peek() || !may("inference", false)) return;
  board.keep();
  await sync(board);
  const kept = board.saved.peek();
  if (kept) toast(`Saved the conversation that was open: ${kept.name}`);
}
