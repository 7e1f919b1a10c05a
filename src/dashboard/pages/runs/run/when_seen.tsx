import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Draws its children when they come near the screen, so that a page of many curves opens at once. */
export function WhenSeen({ height, children }: { height: number; children: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (!ref.current || isSeen) return;
    const watch = new IntersectionObserver(([entry]) => entry?.isIntersecting && setSeen(true), {
      rootMargin: "200px",
    });
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, [isSeen]);
  return (
    <div ref={ref} style={{ minHeight: `${height}px` }}>
      {isSeen && children}
    </div>
  );
}
