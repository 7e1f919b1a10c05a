/** Line icons on a grid of 16. */
const PATHS = {
  home: "M3 8l5-5 5 5v5H3z",
  runs: "M2 12l4-5 3 3 5-7",
  playground: "M3 3h10v7H7l-3 3v-3H3z",
  models: "M8 1.5l5.5 3v7L8 14.5l-5.5-3v-7zM2.5 4.5L8 7.5l5.5-3M8 7.5v7",
  datasets: "M3 4c0-2 10-2 10 0v8c0 2-10 2-10 0zM3 8c0 2 10 2 10 0",
  rewards: "M8 2l2 4 4 .5-3 3 1 4.5-4-2-4 2 1-4.5-3-3L6 6z",
  experiments: "M6 2h4M7 2v4L3 13h10L9 6V2",
  annotate: "M3 13l1-4 7-7 3 3-7 7z",
  deployments: "M3 3h10v4H3zM3 9h10v4H3z",
  agents: "M8 1v3M3 4h10v8H3zM6 8h.1M10 8h.1M6 12v2M10 12v2",
  rollouts: "M3 3v10M3 5h4l2 3h4M3 11h10M11 6l2 2-2 2",
  traces: "M2 4h8M4 8h9M3 12h6",
  monitors: "M2 9h3l2-5 3 8 1.5-3H14",
  detect: "M2 5V2h3M11 2h3v3M14 11v3h-3M5 14H2v-3M4.5 8h7",
  webhooks: "M9 1.5L3.5 9H8l-1 5.5L12.5 7H8z",
  keys: "M5 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 8h6.5v3M11.5 8v2.5",
  people: "M8 2a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM2.5 14c0-6 11-6 11 0",
  regions: "M2 4h5v4H2zM9 8h5v4H9zM4.5 8v4.5H9M7 6h4.5v2",
  usage: "M3 13V8M7 13V4M11 13V6",
  audit: "M4 2h8v12H4zM6 5h4M6 8h4M6 11h2",
  settings: "M2 4h12M10 2.5v3M2 8h12M5 6.5v3M2 12h12M9 10.5v3",
  copy: "M5 5h8v8H5zM3 11V3h8",
  check: "M3 8.5l3.5 3.5L13 4.5",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2 4h12M2 8h12M2 12h12",
  search: "M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2zM11 11l3 3",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.4 1.4M11.6 11.6L13 13M13 3l-1.4 1.4M4.4 11.6L3 13",
  moon: "M13 9.5A5.5 5.5 0 1 1 6.5 3a4.5 4.5 0 0 0 6.5 6.5z",
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 1 1 0 12",
  out: "M9 3H3v10h6M7 8h7M11 5l3 3-3 3",
  book: "M3 2h9a1 1 0 0 1 1 1v11H4a1 1 0 0 1-1-1zM3 12h10",
  warn: "M8 2l6.5 12h-13zM8 6v4M8 12v.1",
  play: "M4 3l9 5-9 5z",
  plus: "M8 3v10M3 8h10",
  edit: "M3 13l1-4 7-7 3 3-7 7z",
  again: "M13 8a5 5 0 1 1-1.5-3.5M13 2v3h-3",
  left: "M10 3L5 8l5 5",
  right: "M6 3l5 5-5 5",
  stop: "M4 4h8v8H4z",
  send: "M8 13V3M4 7l4-4 4 4",
  image: "M2 3h12v10H2zM2 11l4-4 3 3 2-2 3 3M11 6h.1",
  trash: "M3 4h10M6 4V2h4v2M4 4l1 10h6l1-10",
  swap: "M3 5h10l-3-3M13 11H3l3 3",
  up: "M3 10.5l5-5 5 5",
  down: "M3 5.5l5 5 5-5",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);
