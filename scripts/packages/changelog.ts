/**
 * The section of a version in CHANGELOG.md without its heading, which is `## VERSION` or `## VERSION (DATE)`. Undefined if
 * there is none.
 */
export function changelogSection(changelog: string, version: string): string | undefined {
  const sections = changelog.split(/^## /m).slice(1);
  const found = sections.find((section) => section.split(/\s/, 1)[0] === version);
  return found?.slice(found.indexOf("\n")).trim();
}
