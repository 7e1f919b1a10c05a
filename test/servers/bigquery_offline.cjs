/**
 * node --require bigquery_offline.cjs: bigquery-local without the extensions of DuckDB that it would fetch from the
 * network. What they are for (GEOGRAPHY, SHA512) then fails; nothing else uses them.
 */
const { createRequire } = require("node:module");
const { DuckDBConnection } = createRequire(process.argv[1])("@duckdb/node-api");

const NEEDS_EXTENSION = /^\s*(INSTALL|LOAD) |MACRO bq_st_/;
const run = DuckDBConnection.prototype.run;
DuckDBConnection.prototype.run = async function (sql, ...rest) {
  return NEEDS_EXTENSION.test(sql) ? undefined : run.call(this, sql, ...rest);
};
