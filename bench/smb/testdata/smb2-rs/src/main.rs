// Reads or writes a whole file again and again by the crate smb2: whole ADDR SHARE USER FILE read|write BYTES TIMES, with the password in
// PASSWORD. Prints the nanoseconds, and those of processor time, without those of start and login.
use smb2::{ClientConfig, SmbClient};
use std::time::{Duration, Instant};

fn used() -> Duration {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    of(u.ru_utime) + of(u.ru_stime)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (size, times): (usize, usize) = (args[6].parse()?, args[7].parse()?);
    let mut client = SmbClient::connect(ClientConfig {
        addr: args[1].clone(),
        username: args[3].clone(),
        password: std::env::var("PASSWORD")?,
        domain: String::new(),
        timeout: Duration::from_secs(20),
        auto_reconnect: false,
        compression: false,
        dfs_enabled: false,
        dfs_target_overrides: Default::default(),
    })
    .await?;
    let mut share = client.connect_share(&args[2]).await?;
    let data = vec![0u8; size];
    let mut begun = (Instant::now(), used());
    for i in 0..=times {
        if i == 1 {
            begun = (Instant::now(), used()); // the first is to warm up
        }
        let n = if args[5] == "write" {
            client.write_file_pipelined(&mut share, &args[4], &data).await? as usize
        } else {
            client.read_file_pipelined(&mut share, &args[4]).await?.len()
        };
        assert_eq!(n, size);
    }
    println!("{} {}", begun.0.elapsed().as_nanos(), (used() - begun.1).as_nanos());
    Ok(())
}
