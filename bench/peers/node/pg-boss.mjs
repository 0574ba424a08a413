// pg-boss.
import { PgBoss } from 'pg-boss'
import pg from 'pg'
import { main, pad } from './driver.mjs'

const QUEUE = 'noop'
let boss, client, tuned

await main({
  batch: 10_000,
  settings: tuned => ({
    throughput: 'batchSize 1,000, localConcurrency 2, burstWhenBatchFull: a whole batch is one call of the handler',
    waiting: 'useListenNotify, batchSize 1,000, localConcurrency 2, polling 0.5 s',
    callers: 'send'
  })[tuned],

  async open (url, forWhat, callers) {
    tuned = forWhat
    boss = new PgBoss({
      connectionString: url,
      max: tuned === 'callers' ? callers : 20,
      supervise: false,
      schedule: false,
      useListenNotify: tuned === 'waiting'
    })
    boss.on('error', error => console.error(String(error)))
    await boss.start()
    client = new pg.Client(url)
    await client.connect()
    // Whether submits notify is a property of the queue, so it follows what is measured.
    if (tuned === 'waiting') await boss.updateQueue(QUEUE, { notify: true })
  },
  setup: () => boss.createQueue(QUEUE, { retryLimit: 2 }),
  submit: id => boss.send(QUEUE, { id, pad }),
  bulk: ids => boss.insert(QUEUE, ids.map(id => ({ data: { id, pad } }))),
  start: ran => boss.work(
    QUEUE,
    { batchSize: 1000, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true },
    async jobs => { for (const job of jobs) ran(job.data.id) }
  ),
  async stored () {
    const { rows } = await client.query(
      `select not exists (select from pgboss.job where name = '${QUEUE}' and state < 'completed') as stored`)
    return rows[0].stored
  }
})
