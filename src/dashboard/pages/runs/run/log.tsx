import { useLayoutEffect, useRef } from "preact/hooks";
import { Card } from "../../../kit/card.tsx";
import { jobPath } from "../types.ts";
import type { LogLine } from "./live.ts";

const NEAR_PX = 40;

/** The last lines of the log. It follows new lines unless the reader has scrolled up. */
export function Log({ lines, id, isOver }: { lines: readonly LogLine[]; id: string; isOver: boolean }) {
  const box = useRef<HTMLElement>(null);
  const isFollowing = useRef(true);
  useLayoutEffect(() => {
    const { current } = box;
    if (current && isFollowing.current) current.scrollTop = current.scrollHeight;
  }, [lines]);
  const onScroll = ({ currentTarget: at }: { currentTarget: HTMLElement }) => {
    isFollowing.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PX;
  };
  return (
    <Card
      title="Log"
      side={
        isOver && (
          <a href={`${jobPath(id)}/logs/full?stream=all`} download={`${id}.log`}>
            Download all
          </a>
        )
      }
    >
      <section
        ref={box}
        class="runs-log"
        aria-label="Log lines"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        onScroll={onScroll}
      >
        {lines.length === 0 && <p class="muted">No line yet.</p>}
        {lines.map(({ seq, time, stream, line }) => (
          <div key={seq} class={stream === "stderr" ? "warn" : ""}>
            <time dateTime={time}>{time.slice(11, 19)}</time>
            {line}
          </div>
        ))}
      </section>
    </Card>
  );
}
