#compdef gpuctr-client
# zsh completion of gpuctr-client. The client itself finds the candidates; this asks it for them.

_gpuctr_client()
{
	local line directive= tab=$'\t'
	local -a texts shown more
	for line in ${(f)"$($words[1] completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
		if [[ $line == :* ]]; then
			directive=$line
		else
			texts+=("${line%%$tab*}")
			if [[ $line == *$tab* ]]; then
				shown+=("${line%%$tab*}  -- ${line#*$tab}")
			else
				shown+=("$line")
			fi
		fi
	done
	[[ $directive == :more ]] && more=(-S '')
	(( $#texts )) && compadd -l -d shown $more -- $texts
	case $directive in
	(:program*)
		local n=$(( ${directive#:program } + 1 ))
		shift $n words
		(( CURRENT -= n ))
		if (( CURRENT == 1 )); then
			_command_names -e
		else
			_normal
		fi
		;;
	(:files) _files ;;
	esac
}

if [[ $funcstack[1] == _gpuctr-client || $funcstack[1] == _gpuctr_client ]]; then
	_gpuctr_client "$@"
else
	compdef _gpuctr_client gpuctr-client
fi
