/** So many at a time, told in the order they were given. The first that fails ends it, when the others have ended. */
export async function* inOrder<T, R>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const under: Promise<R>[] = [];
  try {
    for (const item of items) {
      const started = work(item);
      started.catch(() => {}); // told when its turn comes
      under.push(started);
      if (under.length >= atOnce) yield await under.shift()!;
    }
    while (under.length > 0) yield await under.shift()!;
  } finally {
    await Promise.allSettled(under);
  }
}
