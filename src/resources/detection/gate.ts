/**
 * Many together, or one alone. Whoever wants to be alone keeps those behind it waiting: it would else never come to it.
 */
export type Gate = {
  shared: <T>(work: () => Promise<T>) => Promise<T>;
  alone: <T>(work: () => Promise<T>) => Promise<T>;
};

type Waiting = { alone: boolean; begin: () => void };

export function createGate(): Gate {
  let inside = 0;
  let isShut = false;
  const line: Waiting[] = [];

  function advance() {
    for (let next = line[0]; next && !isShut && (!next.alone || inside === 0); next = line[0]) {
      line.shift();
      inside++;
      isShut = next.alone;
      next.begin();
    }
  }

  async function pass<T>(alone: boolean, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((begin) => {
      const mine = { alone, begin };
      const at = alone ? line.findIndex((each) => !each.alone) : -1; // before those who can go together
      if (at < 0) line.push(mine);
      else line.splice(at, 0, mine);
      advance();
    });
    try {
      return await work();
    } finally {
      inside--;
      if (alone) isShut = false;
      advance();
    }
  }

  return { shared: (work) => pass(false, work), alone: (work) => pass(true, work) };
}
