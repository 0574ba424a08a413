// graphile-worker: the original, for Node.
import { Logger, makeWorkerUtils, run, runMigrations } from 'graphile-worker'
import pg from 'pg'
import { main, pad } from './driver.mjs'

const logger = new Logger(() => (level, message) => { if (level === 'error') console.error(message) })
let connectionString, pool, utils, tuned

const WORKERS = {
  throughput: {
    concurrentJobs: 24,
    localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0
  },
  waiting: { concurrentJobs: 24, localQueue: { size: 500, refetchDelay: { durationMs: 10 } } }
}

await main({
  batch: 10_000,
  settings: tuned => ({
    throughput: 'localQueue 500, completeJobBatchDelay 0, concurrentJobs 24',
    waiting: 'localQueue 500, concurrentJobs 24',
    callers: 'addJob'
  })[tuned],

  async open (url, forWhat, callers) {
    [connectionString, tuned] = [url, forWhat]
    pool = new pg.Pool({ connectionString, max: tuned === 'callers' ? callers : 26 })
  },
  setup: () => runMigrations({ pgPool: pool, logger }),
  async submit (id) {
    utils ??= await makeWorkerUtils({ pgPool: pool, logger })
    await utils.addJob('noop', { id, pad })
  },
  async bulk (ids) {
    utils ??= await makeWorkerUtils({ pgPool: pool, logger })
    await utils.addJobs(ids.map(id => ({ identifier: 'noop', payload: { id, pad } })))
  },
  async start (ran) {
    const worker = { connectionString, maxPoolSize: 25, pollInterval: 2000, logger, ...WORKERS[tuned] }
    await run({ preset: { worker }, taskList: { noop: async job => ran(job.id) } })
  },
  async stored () {
    const { rows } = await pool.query('select not exists (select from graphile_worker._private_jobs) as stored')
    return rows[0].stored
  }
})
