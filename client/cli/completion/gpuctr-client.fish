# fish completion of gpuctr-client. The client itself finds the candidates; this asks it for them.

function __gpuctr_client_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l directive
    for line in ($words[1] completion words -- $words[2..-1] 2>/dev/null)
        if string match -q ':*' -- $line
            set directive $line
        else
            printf '%s\n' $line
        end
    end
    switch "$directive"
        case ':program *'
            set -l n (math (string replace ':program ' '' -- $directive) + 2)
            if test (count $words) -eq $n
                __fish_complete_command
            else
                complete -C "$(string join ' ' -- (string escape -- $words[$n..-2])) $words[-1]"
            end
        case ':files'
            __fish_complete_path $words[-1]
    end
end

complete -c gpuctr-client -f -a '(__gpuctr_client_complete)'
