/**
 * The one way to do long work on the serving thread: in pieces, with the event loop free to answer others in between.
 * Awaiting settled promises is not enough. Timers, requests and files wait until the chain of promises ends.
 */
const OWN_MS = 4; // that one piece of work keeps a turn of the event loop
const ALL_MS = 8; // that all of them together keep one turn

const waiting: (() => void)[] = [];
let begunAt: number | undefined; // when work began in this turn of the event loop

function begin(): number {
  if (begunAt === undefined) {
    begunAt = performance.now();
    setImmediate(setImmediate, end); // behind all that the work itself has put off, such as the end of its commit
  }
  return begunAt;
}

/** One that waits goes on in each turn, however many wait: the others are not kept longer for that. */
function end() {
  begunAt = undefined;
  const resume = waiting.shift();
  if (resume === undefined) return;
  begin();
  resume();
}

/** Resolves in a later turn of the event loop. Work that waits already goes first. */
export function nextTurn(): Promise<void> {
  begin();
  return new Promise((resolve) => waiting.push(resolve));
}

/** To await between two pieces of work. It waits only when the work or the turn of the event loop has been long. */
export type Turn = () => Promise<void> | undefined;

export function takingTurns(): Turn {
  begin();
  let ownAt = performance.now();
  return () => {
    const turnAt = begin();
    const now = performance.now();
    if (ownAt < turnAt) ownAt = turnAt; // the work itself has waited for a file or an answer
    if (now - ownAt < OWN_MS && now - turnAt < ALL_MS) return undefined;
    return nextTurn();
  };
}
